"""The JWKS cache with a fake clock, the parsing of key sets, and their fetching."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from service.auth import jwks_fetch
from service.auth.jwks import ALGORITHMS, ASYMMETRIC, MAX_KEYS, InvalidKeySet, KeySet, is_safe_url, parse_key_set
from service.auth.jwks_cache import STALE_SECONDS, JwksCache
from service.auth.jwks_fetch import MAX_BYTES, fetch_key_set
from service.errors import IssuerKeysUnavailable
from tests.service.auth.issuer_fixture import DISCOVERY, LocalIssuer, jwk_of, new_key, run_issuer

pytestmark = pytest.mark.anyio

ALLOWED = ("RS256", "ES256", "EdDSA")
REFRESH_SECONDS = 30.0
KEY = jwk_of(new_key("EdDSA"), "one")


def parse(*keys: Any) -> KeySet:  # Any: of JSON
    return parse_key_set(json.dumps({"keys": keys}).encode(), ALLOWED)


class CacheHarness:
    """A JWKS cache with a fake clock and a fake fetch, which it counts."""

    def __init__(self, *kids: str) -> None:
        self.kids = kids
        self.now = 1000.0
        self.fetches = 0
        self.cache = JwksCache(self.fetch, REFRESH_SECONDS, lambda: self.now)

    def fetch(self) -> KeySet:
        self.fetches += 1
        if not self.kids:
            raise InvalidKeySet("unreachable")
        return parse(*({**KEY, "kid": kid} for kid in self.kids))

    async def has(self, kid: str) -> bool:
        return await self.cache.find(kid, "EdDSA") is not None


async def test_known_keys_are_not_fetched_again() -> None:
    cache = CacheHarness("one", "two")
    for _ in range(10):
        assert await cache.has("one")
        assert await cache.has("two")
    assert cache.fetches == 1


async def test_unknown_keys_trigger_a_fetch_once_per_interval() -> None:
    cache = CacheHarness("one")
    assert await cache.has("one")
    for number in range(1000):
        assert not await cache.has(f"unknown {number}")
        cache.now += REFRESH_SECONDS / 100
    assert cache.fetches <= 11


async def test_concurrent_requests_fetch_once() -> None:
    cache = CacheHarness("one")
    assert await asyncio.gather(*(cache.has("one") for _ in range(50))) == [True] * 50
    assert cache.fetches == 1


async def test_a_rotated_key_is_replaced_after_the_interval() -> None:
    cache = CacheHarness("one")
    assert await cache.has("one")
    cache.kids = ("two",)
    assert not await cache.has("two")
    cache.now += REFRESH_SECONDS
    assert await cache.has("two")
    assert not await cache.has("one")


async def test_a_withdrawn_key_is_dropped_when_the_keys_are_stale() -> None:
    cache = CacheHarness("one")
    assert await cache.has("one")
    cache.kids = ("two",)
    assert await cache.has("one")
    cache.now += STALE_SECONDS + 1
    assert not await cache.has("one")


async def test_keys_stay_while_the_issuer_is_unreachable_and_fetches_stay_rare() -> None:
    cache = CacheHarness("one")
    assert await cache.has("one")
    cache.kids = ()
    cache.now += STALE_SECONDS + 1
    for _ in range(100):
        assert await cache.has("one")
        assert not await cache.has("two")
    assert cache.fetches == 2


async def test_before_the_first_fetch_no_key_is_accepted_or_refused() -> None:
    cache = CacheHarness()
    for _ in range(100):
        with pytest.raises(IssuerKeysUnavailable):
            await cache.has("one")
    assert cache.fetches == 1
    cache.kids = ("one",)
    cache.now += REFRESH_SECONDS
    assert await cache.has("one")


UNUSABLE_KEYS: dict[str, Any] = {
    "a symmetric key": {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "alg": "HS256"},
    "a symmetric key that says it is RSA's": {"kty": "oct", "k": "c2VjcmV0", "alg": "RS256"},
    "a key for encryption": {**KEY, "use": "enc"},
    "a key for another algorithm": {**KEY, "alg": "RS256"},
    "a key on an unknown curve": {**KEY, "crv": "Ed448"},
    "a key without its numbers": {"kty": "RSA", "kid": "one"},
    "a key of numbers that are none": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    "a short RSA key": jwk_of(rsa.generate_private_key(65537, 1024), "short"),
    "a text": "key",
    "a kind that is no text": {"kty": ["RSA"]},
}


@pytest.mark.parametrize("name", UNUSABLE_KEYS)
def test_a_set_without_a_usable_key_is_invalid(name: str) -> None:
    with pytest.raises(InvalidKeySet, match="no key of the set"):
        parse(UNUSABLE_KEYS[name])


def test_unusable_keys_are_skipped() -> None:
    keys = parse(*UNUSABLE_KEYS.values(), KEY)

    assert keys.find("one", "EdDSA") is not None
    assert keys.find("one", "RS256") is None


def test_a_set_is_truncated_at_the_maximum() -> None:
    assert len(parse(*({**KEY, "kid": str(number)} for number in range(MAX_KEYS + 50)))) == MAX_KEYS


@given(
    st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_other_bytes_are_not_a_key_set(document: bytes) -> None:
    with pytest.raises(InvalidKeySet):
        parse_key_set(document, ALLOWED)


def test_a_key_verifies_its_own_algorithm_only() -> None:
    keys = parse(*(jwk_of(new_key(name), name) for name in ALLOWED))

    for kid in ALLOWED:
        assert [name for name in sorted(ASYMMETRIC) if keys.find(kid, name)] == [kid]


def test_symmetric_algorithms_are_unknown() -> None:
    assert not any(name.startswith("HS") or name.lower() == "none" for name in ASYMMETRIC)
    assert all(kind != "oct" for kind, _ in ALGORITHMS)


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with run_issuer() as made:
        made.add_key("one", "EdDSA")
        yield made


def test_the_key_set_is_discovered(issuer: LocalIssuer) -> None:
    assert fetch_key_set(issuer.url, None) == issuer.key_set()
    assert issuer.requests == [DISCOVERY, "/keys"]


BAD_RESPONSES = {
    "more than is read": (200, b" " * (MAX_BYTES + 1)),
    "somewhere else": (302, b""),
    "an error": (500, b"{}"),
}


@pytest.mark.parametrize("path", [DISCOVERY, "/keys"])
@pytest.mark.parametrize("answer", BAD_RESPONSES)
def test_a_bad_response_brings_no_keys(answer: str, path: str, issuer: LocalIssuer) -> None:
    issuer.answers[path] = BAD_RESPONSES[answer]

    with pytest.raises(InvalidKeySet):
        fetch_key_set(issuer.url, None)


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"no JSON",
        b'{"issuer": "x"}',
        b'{"issuer": "https://other.example", "jwks_uri": "%s/keys"}',
        b'{"issuer": "%s"}',
        b'{"issuer": "%s", "jwks_uri": "http://x.example"}',
    ],
)
def test_an_invalid_discovery_document_brings_no_keys(document: bytes, issuer: LocalIssuer) -> None:
    issuer.answers[DISCOVERY] = (200, document.replace(b"%s", issuer.url.encode()))

    with pytest.raises(InvalidKeySet):
        fetch_key_set(issuer.url, None)
    assert issuer.requests == [DISCOVERY]


def test_a_slow_response_times_out(issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks_fetch, "TOTAL_TIMEOUT_S", -1.0)  # the first chunk is late already

    issuer.answers["/keys"] = (200, b" ")

    with pytest.raises(InvalidKeySet, match="too slow"):
        fetch_key_set(issuer.url, f"{issuer.url}/keys")


def test_a_missing_or_too_large_file_brings_no_keys(tmp_path: Path) -> None:
    with pytest.raises(InvalidKeySet, match="No such file"):
        fetch_key_set("https://id.example", str(tmp_path / "nothing"))
    (tmp_path / "large").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(InvalidKeySet, match="larger than"):
        fetch_key_set("https://id.example", str(tmp_path / "large"))


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://id.example/realm", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://localhost/keys", True),
        ("http://id.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost@evil.example", False),
        ("https://user:password@id.example", False),
        ("file:///etc/passwd", False),
        ("ftp://id.example", False),
        ("https://", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_keys_are_fetched_over_tls_or_from_localhost(url: str, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe
