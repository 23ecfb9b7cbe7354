"""Parse a JWK set: public keys, each bound to one algorithm, so that no token can choose how a key is used."""

import ipaddress
import json
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

# By key type and curve. Symmetric algorithms are missing: their verification key could also sign.
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

KeyId = tuple[str | None, str]  # the `kid`, if there is one, and the algorithm


def is_url(location: str) -> bool:
    """Return whether keys are fetched from the location, and not read from a file."""
    return location.startswith(("http://", "https://"))


def is_safe_url(url: str) -> bool:
    """Return whether a response from the URL is protected from tampering: https, or http on loopback."""
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
    """The key set cannot be fetched or parsed."""


class KeySet:
    """The keys of an issuer that verify an allowed algorithm."""

    def __init__(self, keys: Mapping[KeyId, PyJWK]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the key with this id and algorithm; without an id, the algorithm's key if there is exactly one."""
        if kid is not None:
            return self._keys.get((kid, algorithm))
        matching = [key for (_, name), key in self._keys.items() if name == algorithm]
        return matching[0] if len(matching) == 1 else None


def parse_key_set(document: bytes, allowed: Collection[str]) -> KeySet:
    """Parse a JWK set (RFC 7517); keys for other uses or algorithms are skipped."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise InvalidKeySet("the key set is not JSON") from error
    listed = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(listed, list):
        raise InvalidKeySet("it is not a JWK set: there is no list 'keys'")
    keys: dict[KeyId, PyJWK] = {}
    for jwk in listed[:MAX_KEYS]:
        if isinstance(jwk, dict) and jwk.get("use", "sig") == "sig":
            for algorithm in _algorithms(jwk, allowed):
                if (key := _parse_key(jwk, algorithm)) is not None:
                    keys[_key_id(jwk, algorithm)] = key
    if not keys:
        raise InvalidKeySet("no key of the set is for an allowed algorithm")
    return KeySet(keys)


def _algorithms(jwk: Mapping[str, Any], allowed: Collection[str]) -> list[str]:  # Any: whatever JSON has
    """Return the allowed algorithms of a key."""
    kind, curve = jwk.get("kty"), jwk.get("crv")
    if not isinstance(kind, str) or not (curve is None or isinstance(curve, str)):
        return []
    names = ALGORITHMS.get((kind, curve), ())
    return [name for name in names if name in allowed and jwk.get("alg", name) == name]


def _parse_key(jwk: dict[str, Any], algorithm: str) -> PyJWK | None:
    public = {name: value for name, value in jwk.items() if name != "d"}  # "d" is the private part
    try:
        key = PyJWK(public, algorithm)
    except PyJWTError:
        return None
    is_short = isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_RSA_BITS
    return None if is_short else key


def _key_id(jwk: Mapping[str, Any], algorithm: str) -> KeyId:
    kid = jwk.get("kid")
    return (kid if isinstance(kid, str) else None, algorithm)
