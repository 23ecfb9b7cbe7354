"""Tokens appear in no log, metric, response, row, object or scratch file."""

import hmac
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from registry.access import tokens
from registry.access.authentication import authenticate_in_session
from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token, parse_token, revoke_token
from registry.access.users import create_user
from registry.catalog import tasks
from registry.catalog.tasks import create_task
from registry.errors import Unauthenticated
from registry.log.signing import open_signer
from registry.registry import Registry
from service.app import create_app
from service.middleware.request_lifecycle import SECURITY_HEADERS
from service.observability.logging import redact_secrets
from service.settings import ServiceSettings
from tests.service.auth.issuer_fixture import LocalIssuer
from tests.service.conftest import MakeDeployment
from tests.service.deployment import GARBAGE, TASK, Deployment, archive, picture
from tests.service.test_serve import run_service


def requests_with(secret: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests that carry the secret in every place for a text."""
    bearer = {"Authorization": f"Bearer {secret}"}
    yield "GET", "/users/me", {"headers": bearer}
    yield "POST", "/predict", {"headers": bearer, "json": {"images": [], "task": "nope"}}
    for wrong in (f"Bearer {secret} {secret}", f"Basic {secret}", secret, f"Bearer x{secret}"):
        yield "GET", "/users/me", {"headers": {"Authorization": wrong}}
    for path in ("/tasks/{}", "/sources/{}", "/nowhere/{}", "/v2/models/{}", "/erasures/{}", "/users/{}/quota"):
        yield "GET", path.format(secret), {}
    yield "DELETE", f"/sources/{secret}", {}
    for query in ("after", "limit", "token", "access_token", "user", secret):
        yield "GET", "/tokens", {"params": {query: secret}}
    yield "POST", "/sources", {"params": {"task": secret, "name": secret}, "content": archive(), "headers": _ZIP}
    yield "POST", "/sources", {"json": {"task": secret, "name": secret}}
    yield "POST", "/predict", {"json": {"images": [secret], "task": secret, "sources": [secret], secret: secret}}
    yield "POST", "/predict", {"files": {"image": (secret, picture(), secret)}, "data": {"task": secret}}
    yield "POST", "/predict", {"files": {secret: (secret, secret.encode())}}
    yield "POST", "/users", {"json": {"name": "x", "role": secret}}
    yield "POST", "/tokens", {"json": {"user": secret, "note": secret + "\n"}}
    yield "POST", "/tasks", {"content": secret, "headers": {"Content-Type": "application/json"}}
    for header in ("X-Request-ID", "Cookie", "Content-Type", "Accept", "Referer", "X-Forwarded-For", "User-Agent"):
        yield "POST", "/predict", {"headers": {header: secret}, "content": secret}


_ZIP = {"Content-Type": "application/zip"}


def find_secrets(data: bytes, secrets: list[str]) -> list[str]:
    """Return the secrets that the data contains, whole or in large part."""
    return [secret[:17] for secret in secrets if secret[17:].encode() in data or secret[17:45].encode() in data]


def test_a_secret_is_found_nowhere_afterwards(registry: Registry, environment: dict[str, str], tmp_path: Path) -> None:
    with registry.database.write_transaction() as session:
        admin = create_user(session, OPERATOR, "admin", "admin")
        valid = issue_token(session, OPERATOR, admin.id).text
        revoked = issue_token(session, OPERATOR, admin.id)
        create_task(session, OPERATOR, "animals", backbone="vit")
    with registry.database.write_transaction() as session:
        revoke_token(session, OPERATOR, revoked.token.id)
    issuer = LocalIssuer("http://127.0.0.1:9")
    issuer.add_key("one", "EdDSA")
    jwt = issuer.sign(issuer.claims("somebody"), "one")
    secrets = [valid, revoked.text, GARBAGE.replace("x" * 43, "Q7" * 21 + "z"), jwt]
    environment |= {
        "ALACARTE_LOG_LEVEL": "debug",
        "ALACARTE_OIDC_ISSUER": issuer.url,
        "ALACARTE_OIDC_AUDIENCE": "alacarte-tests",
    }
    log = tmp_path / "log"
    responses: list[bytes] = []
    with run_service(environment, log) as (process, port):
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {valid}"}, timeout=60) as client:
            for secret in secrets:
                for method, path, options in requests_with(secret):
                    answer = client.request(method, path, **options)
                    assert answer.status_code != 500, f"{method} {path[:20]}: {answer.text}"
                    responses += [answer.content, str(answer.headers).encode()]
            metrics = client.get("/metrics")
            assert metrics.status_code == 200
            responses.append(metrics.content)
        process.terminate()
        process.wait()

    assert b'"event": "request"' in log.read_bytes()
    assert b"jwks.fetch-failed" in log.read_bytes()
    assert len(responses) > 4 * 2 * 30
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"log", "registry.db"} <= {path.name for path in files}
    for origin, data in [("an answer", one) for one in responses] + [(path.name, path.read_bytes()) for path in files]:
        assert find_secrets(data, secrets) == [], origin


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"no task '{GARBAGE}' here", "no task 'alc_abcdefghijkl_(...)' here"),
        ("alc_abcdefghijkl is a prefix", "alc_abcdefghijkl is a prefix"),
        ("a eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl b", "a (a JWT) b"),
        ("a eyJhbGciOiJSUzI1NiJ9.eyJzdWI b", "a (a JWT) b"),
        ("nothing at all", "nothing at all"),
    ],
)
def test_a_token_in_a_text_is_redacted_to_its_public_part(text: str, left: str) -> None:
    assert redact_secrets(text) == left


def test_tokens_are_compared_in_constant_time_only(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokens.compare_digest is hmac.compare_digest
    text = deployment.tokens["user"]
    wrong = text[:17] + "A" * 43
    with deployment.registry.database.read_transaction() as session:
        compared: list[tuple[str, str]] = []

        def compare(given: str, stored: str, /) -> bool:
            compared.append((given, stored))
            return True

        monkeypatch.setattr(tokens, "compare_digest", compare)
        assert authenticate_in_session(session, parse_token(wrong)).user_id == deployment.users["user"]
        assert [(len(given), len(stored)) for given, stored in compared] == [(64, 64)]
        monkeypatch.setattr(tokens, "compare_digest", lambda *_: False)
        with pytest.raises(Unauthenticated):
            authenticate_in_session(session, parse_token(text))


REQUESTS: dict[int, tuple[str | None, str, str, dict[str, Any]]] = {
    200: ("user", "GET", "/tasks", {}),
    204: ("admin", "DELETE", "/users/{new}", {}),
    401: (None, "GET", "/tasks", {}),
    403: ("user", "GET", "/metrics", {}),
    404: ("user", "GET", "/nowhere", {}),
    405: ("user", "PATCH", "/tasks", {}),
    409: ("stranger", "POST", "/predict", {"files": {"image": picture()}, "data": {"task": TASK}}),
    413: ("user", "POST", "/predict", {"json": {"images": ["x" * 5000]}}),
    415: ("user", "POST", "/predict", {"content": b"x"}),
    422: ("user", "GET", "/sources/no-id", {}),
    500: ("owner", "GET", "/tasks", {}),
}


@pytest.fixture(scope="module")
def small(make_deployment: MakeDeployment) -> Deployment:
    return make_deployment(max_body_bytes=4096)


@pytest.mark.parametrize("status", REQUESTS)
def test_every_response_has_the_security_headers_and_no_internals(
    status: int, small: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    if status == 500:
        monkeypatch.setattr(tasks, "list_tasks", lambda *_: 1 / 0)
    who, method, path, options = REQUESTS[status]

    answer = small.request(who, method, path.format(new=small.add_user()), **options)

    assert answer.status_code == status, answer.text
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert not {"server", "x-powered-by", "via"} & set(answer.headers)
    for word in ("Traceback", "ZeroDivisionError", ".py", "site-packages", "sqlalchemy", "uvicorn", "starlette"):
        assert word not in answer.text


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/debug", "/__debug__", "/admin", "/config", "/env", "/.env", "/.git"]
)
def test_there_are_no_debug_routes(path: str, deployment: Deployment) -> None:
    assert deployment.request("admin", "GET", path).status_code == 404


def test_the_service_is_not_in_debug_mode() -> None:
    assert create_app(ServiceSettings()).debug is False


def test_no_setting_has_a_default_secret(tmp_path: Path) -> None:
    for name, field in ServiceSettings.model_fields.items():
        if SecretStr in getattr(field.annotation, "__args__", ()) or re.search(
            r"secret|password|token|access_key", name
        ):
            assert field.default is None, name
    assert ServiceSettings.model_fields["database"].default == ""
    keys = [open_signer(tmp_path / folder / "signing-key.pem") for folder in ("a", "b")]
    assert keys[0].public != keys[1].public
    assert {(tmp_path / folder / "signing-key.pem").stat().st_mode & 0o077 for folder in ("a", "b")} == {0}
