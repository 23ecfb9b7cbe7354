"""What is believed of an issuer at all: how it may sign, and where its keys may come from."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

# By the kind of a key and its curve. Symmetric ones are not among them: whoever can check could sign.
ALGORITHMS: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ASYMMETRIC = frozenset(name for names in ALGORITHMS.values() for name in names)


def is_url(place: str) -> bool:
    """Whether keys are fetched from there, and not read from a file."""
    return place.startswith(("http://", "https://"))


def is_safe_url(url: str) -> bool:
    """Whether what comes from the URL is what its host sent: by TLS, or from this very machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if parts.username is not None or not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
