"""An issuer's keys as a replica keeps them, by a clock that the test turns; and what of a key set is a key at all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from service.auth import jwks_fetch
from service.auth.jwks import ALGORITHMS, ASYMMETRIC, MAX_KEYS, InvalidKeySet, KeySet, is_safe_url, parse_key_set
from service.auth.jwks_cache import STALE_SECONDS, JwksCache
from service.auth.jwks_fetch import MAX_BYTES, fetch_key_set
from service.errors import IssuerKeysUnavailable
from tests.service.auth.issuer_fixture import DISCOVERY, LocalIssuer, issuing, jwk_of, new_key

ALLOWED = ("RS256", "ES256", "EdDSA")
REFRESH_SECONDS = 30.0
KEY = jwk_of(new_key("EdDSA"), "one")


def key_set(*kids: str) -> KeySet:
    return parse_key_set(json.dumps({"keys": [{**KEY, "kid": kid} for kid in kids]}).encode(), ALLOWED)


class Shelf:
    """A clock, and what a fetch brings; it counts the fetches."""

    def __init__(self, *kids: str) -> None:
        self.kids = kids
        self.now = 1000.0
        self.fetches = 0
        self.ring = JwksCache(self.fetch, REFRESH_SECONDS, lambda: self.now)

    def fetch(self) -> KeySet:
        self.fetches += 1
        if not self.kids:
            raise InvalidKeySet("nobody answers")
        return key_set(*self.kids)

    async def has(self, kid: str) -> bool:
        return await self.ring.find(kid, "EdDSA") is not None


def test_known_keys_are_not_asked_for() -> None:
    async def main() -> None:
        shelf = Shelf("one", "two")
        for _ in range(10):
            assert await shelf.has("one")
            assert await shelf.has("two")
        assert shelf.fetches == 1

    anyio.run(main)


def test_an_unknown_key_is_asked_for_once_in_a_while_however_many_come() -> None:
    async def main() -> None:
        shelf = Shelf("one")
        assert await shelf.has("one")
        for number in range(1000):
            assert not await shelf.has(f"unknown {number}")
            shelf.now += REFRESH_SECONDS / 100
        assert shelf.fetches <= 11

    anyio.run(main)


def test_many_who_wait_for_one_key_ask_once() -> None:
    async def main() -> None:
        shelf = Shelf("one")
        found: list[bool] = []

        async def ask() -> None:
            found.append(await shelf.has("one"))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(ask)
        assert found == [True] * 50
        assert shelf.fetches == 1

    anyio.run(main)


def test_a_new_key_is_found_after_a_while_and_a_withdrawn_one_goes() -> None:
    async def main() -> None:
        shelf = Shelf("one")
        assert await shelf.has("one")
        shelf.kids = ("two",)
        assert not await shelf.has("two")
        shelf.now += REFRESH_SECONDS
        assert await shelf.has("two")
        assert not await shelf.has("one")

    anyio.run(main)


def test_a_withdrawn_key_goes_though_nobody_asks_for_another() -> None:
    async def main() -> None:
        shelf = Shelf("one")
        assert await shelf.has("one")
        shelf.kids = ("two",)
        assert await shelf.has("one")
        shelf.now += STALE_SECONDS + 1
        assert not await shelf.has("one")

    anyio.run(main)


def test_keys_stay_while_nobody_answers_and_the_asking_stays_seldom() -> None:
    async def main() -> None:
        shelf = Shelf("one")
        assert await shelf.has("one")
        shelf.kids = ()
        shelf.now += STALE_SECONDS + 1
        for _ in range(100):
            assert await shelf.has("one")
            assert not await shelf.has("two")
        assert shelf.fetches == 2

    anyio.run(main)


def test_without_any_key_nobody_is_told_yes_or_no() -> None:
    async def main() -> None:
        shelf = Shelf()
        for _ in range(100):
            with pytest.raises(IssuerKeysUnavailable):
                await shelf.has("one")
        assert shelf.fetches == 1
        shelf.kids = ("one",)
        shelf.now += REFRESH_SECONDS
        assert await shelf.has("one")

    anyio.run(main)


NO_KEYS: dict[str, Any] = {
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


@pytest.mark.parametrize("name", NO_KEYS)
def test_a_set_holds_no_key_if_there_is_only(name: str) -> None:
    with pytest.raises(InvalidKeySet, match="no key of the set"):
        parse_key_set(json.dumps({"keys": [NO_KEYS[name]]}).encode(), ALLOWED)


def test_a_key_that_cannot_be_used_spoils_no_other() -> None:
    keys = parse_key_set(json.dumps({"keys": [*NO_KEYS.values(), KEY]}).encode(), ALLOWED)

    assert keys.find("one", "EdDSA") is not None
    assert keys.find("one", "RS256") is None


def test_an_endless_set_ends() -> None:
    told = {"keys": [{**KEY, "kid": str(number)} for number in range(MAX_KEYS + 50)]}

    assert len(parse_key_set(json.dumps(told).encode(), ALLOWED)) == MAX_KEYS


@given(
    st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_bytes_but_a_key_set_are_one(document: bytes) -> None:
    with pytest.raises(InvalidKeySet):
        parse_key_set(document, ALLOWED)


def test_every_key_of_a_set_checks_by_its_own_algorithm_only() -> None:
    made = {"RS256": new_key("RS256"), "ES256": new_key("ES256"), "EdDSA": new_key("EdDSA")}
    keys = parse_key_set(json.dumps({"keys": [jwk_of(key, name) for name, key in made.items()]}).encode(), ALLOWED)

    for kid in made:
        assert [name for name in sorted(ASYMMETRIC) if keys.find(kid, name)] == [kid]


def test_no_algorithm_by_which_checking_is_signing_is_known() -> None:
    assert not any(name.startswith("HS") or name.lower() == "none" for name in ASYMMETRIC)
    assert all(kind != "oct" for kind, _ in ALGORITHMS)


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with issuing() as made:
        made.add_key("one", "EdDSA")
        yield made


def test_the_issuer_is_asked_where_its_keys_are(issuer: LocalIssuer) -> None:
    assert fetch_key_set(issuer.url, None) == issuer.key_set()
    assert issuer.asked == [DISCOVERY, "/keys"]


BAD_ANSWERS = {
    "more than is read": (200, b" " * (MAX_BYTES + 1)),
    "somewhere else": (302, b""),
    "an error": (500, b"{}"),
}


@pytest.mark.parametrize("path", [DISCOVERY, "/keys"])
@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_an_issuer_brings_no_keys_if_it_answers_with(answer: str, path: str, issuer: LocalIssuer) -> None:
    issuer.answers[path] = BAD_ANSWERS[answer]

    with pytest.raises(InvalidKeySet):
        fetch_key_set(issuer.url, None)


@pytest.mark.parametrize(
    "told",
    [b"[]", b"no JSON", b'{"issuer": "x"}', b'{"issuer": "%s"}', b'{"issuer": "%s", "jwks_uri": "http://x.example"}'],
)
def test_a_configuration_that_is_none_brings_no_keys(told: bytes, issuer: LocalIssuer) -> None:
    issuer.answers[DISCOVERY] = (200, told.replace(b"%s", issuer.url.encode()))

    with pytest.raises(InvalidKeySet):
        fetch_key_set(issuer.url, None)
    assert issuer.asked == [DISCOVERY]


def test_an_issuer_that_drips_is_given_up(issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks_fetch, "TOTAL_TIMEOUT_S", -1.0)  # the first piece is late already

    issuer.answers["/keys"] = (200, b" ")

    with pytest.raises(InvalidKeySet, match="too slow"):
        fetch_key_set(issuer.url, f"{issuer.url}/keys")


def test_a_file_that_is_not_there_or_too_large_brings_no_keys(tmp_path: Path) -> None:
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
def test_keys_come_by_tls_or_from_this_machine(url: str, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe
