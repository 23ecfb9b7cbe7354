"""The token cache saves a query, and a cached token alone gets no answer."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from registry.access.authentication import authenticate
from registry.access.caller import Caller
from registry.access.oidc_subjects import OidcCredential
from registry.access.tokens import TokenCredential
from service.auth import token_cache
from service.auth.token_cache import TTL_SECONDS, TokenCache
from service.middleware import authentication
from tests.service.auth.test_rate_limit import Clock
from tests.service.deployment import Deployment

ANN = Caller(UUID(int=1), "predictor")
CREDENTIAL = TokenCredential("prefix", "hash")


def test_a_caller_is_cached_for_a_moment() -> None:
    clock = Clock()
    cache = TokenCache(clock)
    assert cache.get(CREDENTIAL) is None

    cache.put(CREDENTIAL, ANN)

    clock.now += 0.9 * TTL_SECONDS
    assert cache.get(CREDENTIAL) == ANN
    clock.now += 0.2 * TTL_SECONDS
    assert cache.get(CREDENTIAL) is None
    assert len(cache) == 0


def test_another_token_with_the_same_prefix_is_not_cached() -> None:
    cache = TokenCache(Clock())
    cache.put(CREDENTIAL, ANN)

    assert cache.get(TokenCredential("prefix", "another hash")) is None


def test_a_subject_is_cached_for_all_its_jwts_and_for_no_other_subject() -> None:
    cache = TokenCache(Clock())
    until = datetime.now(UTC) + timedelta(hours=1)
    cache.put(OidcCredential("issuer", "ann", until), ANN)

    assert cache.get(OidcCredential("issuer", "ann", until + timedelta(hours=1))) == ANN
    assert cache.get(OidcCredential("issuer", "ben", until)) is None
    assert cache.get(OidcCredential("another issuer", "ann", until)) is None


def test_the_oldest_entries_are_evicted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "MAX_ENTRIES", 3)
    cache = TokenCache(Clock())
    credentials = [TokenCredential(str(number), "hash") for number in range(5)]

    for credential in credentials:
        cache.put(credential, ANN)

    assert [credential.prefix for credential in credentials if cache.get(credential)] == ["2", "3", "4"]


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the middleware authenticated in SQL; cached tokens do not expire, also on a slow machine."""
    monkeypatch.setattr(token_cache, "TTL_SECONDS", 3600.0)
    authenticated: list[str] = []

    def record(database: Any, credential: TokenCredential) -> Caller:
        authenticated.append(credential.public_id)
        return authenticate(database, credential)

    monkeypatch.setattr(authentication, "authenticate", record)
    return authenticated


def test_repeated_predictions_authenticate_once_in_the_middleware(deployment: Deployment, queries: list[str]) -> None:
    _, token = deployment.issue_token()
    queries.clear()

    assert [deployment.predict(token).status_code for _ in range(3)] == [200] * 3

    assert len(queries) == 1


def test_a_cached_token_gets_no_answer_once_it_is_revoked(deployment: Deployment, queries: list[str]) -> None:
    number, token = deployment.issue_token()
    assert deployment.predict(token).status_code == 200
    assert deployment.request("admin", "DELETE", f"/tokens/{number}").status_code == 204
    queries.clear()

    assert deployment.predict(token).status_code == 401

    assert queries == []  # so the cached token passed the middleware, and only the rights read refused it
    assert deployment.request(token, "GET", "/sources").status_code == 401


def test_only_predictions_use_the_cache(deployment: Deployment, queries: list[str]) -> None:
    _, token = deployment.issue_token()
    assert deployment.predict(token).status_code == 200
    queries.clear()

    for path in ("/sources", "/tokens", "/metrics", "/v2"):
        deployment.request(token, "GET", path)

    assert len(queries) == 4
