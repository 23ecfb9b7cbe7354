"""The public keys of an issuer, each bound to one algorithm, so that no token can choose how a key is used."""

import ipaddress
import json
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

# By the kind of a key and its curve. Symmetric ones are not among them: whoever can check could sign.
ALGORITHMS: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ASYMMETRIC = frozenset(name for names in ALGORITHMS.values() for name in names)

MAX_KEYS = 100
MIN_RSA_BITS = 2048

Place = tuple[str | None, str]  # the key's id, if it has one, and the algorithm


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


class InvalidKeySet(Exception):
    """A document that holds no key set."""


class KeySet:
    """The keys of one set that can check one of the allowed algorithms."""

    def __init__(self, keys: Mapping[Place, PyJWK]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key of that id for that algorithm; without an id the only one for it, if it is the only one."""
        if kid is not None:
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, name), key in self._keys.items() if name == algorithm]
        return fitting[0] if len(fitting) == 1 else None


def parse_key_set(document: bytes, allowed: Collection[str]) -> KeySet:
    """The keys in a JWK set (RFC 7517); those that are not for checking such signatures are left out."""
    try:
        told = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise InvalidKeySet("it is no JSON") from error
    listed = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        raise InvalidKeySet("it is no JWK set: there is no list 'keys'")
    keys: dict[Place, PyJWK] = {}
    for one in listed[:MAX_KEYS]:
        if isinstance(one, dict) and one.get("use", "sig") == "sig":
            keys |= {_place(one, name): key for name in _names(one, allowed) if (key := _key(one, name)) is not None}
    if not keys:
        raise InvalidKeySet("none of its keys is for an allowed algorithm")
    return KeySet(keys)


def _names(told: Mapping[str, Any], allowed: Collection[str]) -> list[str]:  # Any: whatever JSON has
    """The allowed algorithms that the key is for."""
    kind, curve = told.get("kty"), told.get("crv")
    if not isinstance(kind, str) or not (curve is None or isinstance(curve, str)):
        return []
    names = ALGORITHMS.get((kind, curve), ())
    return [name for name in names if name in allowed and told.get("alg", name) == name]


def _key(told: dict[str, Any], algorithm: str) -> PyJWK | None:
    public = {name: value for name, value in told.items() if name != "d"}  # one with a secret in it still only checks
    try:
        key = PyJWK(public, algorithm)
    except PyJWTError:
        return None
    is_short = isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_RSA_BITS
    return None if is_short else key


def _place(told: Mapping[str, Any], algorithm: str) -> Place:
    kid = told.get("kid")
    return (kid if isinstance(kid, str) else None, algorithm)
