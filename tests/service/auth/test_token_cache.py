"""The gate remembers for a moment whom SQL has known; and nobody gets anything by that alone."""

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
from tests.service.deployment import TASK, Deployment, picture

ANN = Caller(UUID(int=1), "predictor")
PROOF = TokenCredential("prefix", "hash")


def test_who_was_known_is_known_for_a_moment() -> None:
    clock = Clock()
    cache = TokenCache(clock)
    assert cache.get(PROOF) is None

    cache.put(PROOF, ANN)

    clock.now += 0.9 * TTL_SECONDS
    assert cache.get(PROOF) == ANN
    clock.now += 0.2 * TTL_SECONDS
    assert cache.get(PROOF) is None
    assert len(cache) == 0


def test_another_text_with_the_same_prefix_is_not_known() -> None:
    cache = TokenCache(Clock())
    cache.put(PROOF, ANN)

    assert cache.get(TokenCredential("prefix", "another hash")) is None


def test_another_document_of_the_same_subject_is_known_and_no_other_subject() -> None:
    cache = TokenCache(Clock())
    until = datetime.now(UTC) + timedelta(hours=1)
    cache.put(OidcCredential("issuer", "ann", until), ANN)

    assert cache.get(OidcCredential("issuer", "ann", until + timedelta(hours=1))) == ANN
    assert cache.get(OidcCredential("issuer", "ben", until)) is None
    assert cache.get(OidcCredential("another issuer", "ann", until)) is None


def test_a_crowd_is_forgotten_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "MAX_ENTRIES", 3)
    pool = TokenCache(Clock())
    credentials = [TokenCredential(str(number), "hash") for number in range(5)]

    for credential in credentials:
        pool.put(credential, ANN)

    assert [credential.prefix for credential in credentials if pool.get(credential)] == ["2", "3", "4"]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom SQL was asked for at the gate."""
    asked: list[str] = []
    look_up = authenticate

    def noted(database: Any, credential: TokenCredential) -> Caller:
        asked.append(credential.public_id)
        return look_up(database, credential)

    monkeypatch.setattr(authentication, "authenticate", noted)
    return asked


def new_token(deployment: Deployment) -> tuple[str, str]:
    issued = deployment.request("admin", "POST", "/tokens", json={"user": str(deployment.users["user"])}).json()
    return issued["id"], issued["text"]


def status(deployment: Deployment, token: str) -> int:
    return deployment.request(token, "POST", "/predict", files={"image": picture()}, data={"task": TASK}).status_code


def test_who_asks_again_at_once_is_looked_up_once_and_answered(
    deployment: Deployment, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "TTL_SECONDS", 3600.0)  # however slow the machine
    _, token = new_token(deployment)
    looks.clear()

    assert [status(deployment, token) for _ in range(3)] == [200] * 3

    assert len(looks) == 1


def test_a_token_that_the_gate_remembers_gets_nothing_once_it_is_revoked(
    deployment: Deployment, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "TTL_SECONDS", 3600.0)  # it would remember for ever
    number, token = new_token(deployment)
    assert status(deployment, token) == 200
    assert deployment.request("admin", "DELETE", f"/tokens/{number}").status_code == 204
    looks.clear()

    assert status(deployment, token) == 401

    assert looks == []  # so the gate let it in, and it got nothing all the same
    assert deployment.request(token, "GET", "/sources").status_code == 401


def test_only_questions_pass_by_memory(
    deployment: Deployment, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "TTL_SECONDS", 3600.0)
    _, token = new_token(deployment)
    assert status(deployment, token) == 200
    looks.clear()

    for path in ("/sources", "/tokens", "/metrics", "/v2"):
        deployment.request(token, "GET", path)

    assert len(looks) == 4
