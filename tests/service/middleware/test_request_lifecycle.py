"""Every request gets a request id, a log line, metrics, and a problem document if it fails."""

import json
import logging
from types import ModuleType

import pytest

from registry.catalog import tasks
from registry.errors import DatabaseUnreachable
from service.background.readiness import Readiness
from service.middleware import authentication
from service.observability.logging import LOGGER, JsonLines, log
from service.prediction import rights_recheck
from tests.servers.processes import wait_until
from tests.service.conftest import MakeDeployment
from tests.service.deployment import GARBAGE, TASK, Deployment


def test_a_given_request_id_is_returned(deployment: Deployment) -> None:
    answer = deployment.request("user", "GET", "/tasks", headers={"X-Request-ID": "abc-1.2_3"})

    assert answer.headers["x-request-id"] == "abc-1.2_3"


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "a;b", "é".encode().decode("latin-1")])
def test_an_invalid_request_id_is_replaced(given: str, deployment: Deployment) -> None:
    headers = {"X-Request-ID": given.encode("latin-1")}

    answer = deployment.request("user", "GET", "/nowhere", headers=headers)

    assert answer.headers["x-request-id"] != given
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PATCH", "/tasks", 405), ("GET", "/tasks/", 404), ("GET", "/sources/no-uuid", 422)],
)
def test_every_error_is_a_problem_document(method: str, path: str, status: int, deployment: Deployment) -> None:
    answer = deployment.request("user", method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].startswith("urn:alacarte:problem:")
    assert {"title", "status", "detail", "request_id"} <= problem.keys()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/sources", "GET, HEAD, POST"),
        ("PATCH", "/tasks/animals", "DELETE, GET, HEAD"),
        ("GET", "/predict", "POST"),
        ("HEAD", "/predict", "POST"),
    ],
)
def test_405_lists_the_allowed_methods(method: str, path: str, allowed: str, deployment: Deployment) -> None:
    answer = deployment.request("user", method, path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert method == "HEAD" or allowed in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v2/health/live", "/tasks", "/openapi.json", "/"])
def test_head_is_answered_as_get_without_the_body(path: str, deployment: Deployment) -> None:
    full = deployment.request("user", "GET", path)

    bare = deployment.request("user", "HEAD", path)

    assert (bare.status_code, bare.content) == (full.status_code, b"")
    assert bare.headers["content-length"] == full.headers["content-length"]
    assert bare.headers["content-type"] == full.headers["content-type"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/users"), ("POST", "/tokens"), ("PUT", "/users/{}/quota"), ("POST", f"/v2/models/{TASK}/infer")],
)
@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/x-www-form-urlencoded"])
def test_an_unsupported_content_type_gets_415(kind: str, method: str, path: str, deployment: Deployment) -> None:
    headers = {"Content-Type": kind}

    answer = deployment.request("admin", method, path.format(deployment.users["user"]), content=b"{}", headers=headers)

    assert answer.status_code == 415, answer.text
    assert "application/json" in answer.json()["detail"]


def test_a_validation_error_has_the_location_and_not_the_value(deployment: Deployment) -> None:
    answer = deployment.request("admin", "POST", "/tasks", json={"name": {"secret": "hunter2"}, "backbone": "vit"})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == ["body", "name"]
    assert "hunter2" not in answer.text


def test_an_unexpected_error_is_logged_and_not_described(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(tasks, "list_tasks", fail)

    answer = deployment.request("user", "GET", "/tasks")

    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in answer.text
    failed = next(record for record in caplog.records if record.getMessage() == "request.failed")
    assert failed.fields["request_id"] == answer.headers["x-request-id"]  # type: ignore[attr-defined]
    assert failed.exc_info is not None


@pytest.mark.parametrize(
    ("module", "function", "path"),
    [(authentication, "authenticate", "/tasks"), (rights_recheck, "read_usable_prompts", "/predict")],
)
def test_without_the_database_there_is_no_answer(
    module: ModuleType, function: str, path: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise DatabaseUnreachable("the database does not answer: 10.1.2.3 refused")

    monkeypatch.setattr(module, function, unreachable)

    answer = deployment.predict() if path == "/predict" else deployment.request("user", "GET", path)

    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "10.1.2.3" not in answer.text


def test_a_replica_without_its_database_is_alive_and_not_ready(
    make_deployment: MakeDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(self: Readiness) -> None:
        raise DatabaseUnreachable("unreachable")

    monkeypatch.setattr(Readiness, "_check_database", unreachable)
    deployment = make_deployment()

    assert deployment.request(None, "GET", "/healthz").status_code == 200
    answer = deployment.request(None, "GET", "/readyz")
    assert answer.status_code == 503
    assert "the database" in answer.json()["detail"]
    assert deployment.request(None, "GET", "/v2/health/ready").status_code == 503


def test_a_request_is_one_log_line_without_secrets(deployment: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)

    deployment.predict(sources="private name")

    def logged() -> list[str]:
        return [JsonLines().format(record) for record in caplog.records if record.name == LOGGER]

    wait_until(lambda: any('"request"' in line for line in logged()))  # it is written after the response is sent
    lines = logged()
    line = next(json.loads(line) for line in lines if '"request"' in line)
    assert (line["method"], line["route"], line["status"]) == ("POST", "/predict", 404)
    assert line["user"] == str(deployment.users["user"])
    assert {"ms", "request_id", "at", "level"} <= line.keys()
    assert not any(secret in text for text in lines for secret in (deployment.tokens["user"], "private name", "alc_"))


def test_a_line_break_in_a_field_stays_in_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)

    log(logging.INFO, "event", text="a\nb", missing=None)

    line = JsonLines().format(caplog.records[-1])
    assert "\n" not in line
    assert json.loads(line)["text"] == "a\nb"
    assert "missing" not in json.loads(line)


def test_requests_are_labelled_by_their_route_and_unknown_methods_and_paths_are_no_labels(
    deployment: Deployment,
) -> None:
    deployment.request("user", "GET", f"/sources/{deployment.source}")
    deployment.request(None, "GET", f"/erasures/{deployment.source}")
    for who in (None, "user"):
        deployment.request(who, "PROPFIND", "/pots/17")

    text = deployment.request("admin", "GET", "/metrics").text

    assert 'route="/sources/{source_id}"' in text
    assert 'method="GET",route="/erasures/{erasure_id}",status="401"' in text
    assert 'method="other",route="unmatched"' in text
    for value in (str(deployment.source), "PROPFIND", "pots"):
        assert value not in text
    for name in ("queue_seconds", "batch_pictures", "batch_pairs", "cached_prompts", "prompt_cache_hits_total"):
        assert f"alacarte_{name}" in text


@pytest.mark.parametrize("text", ["Bearer", "Basic abc", "Bearer a b", "bearer", "Bearer " + "x" * 10_000])
def test_a_malformed_authorization_header_is_refused(text: str, deployment: Deployment) -> None:
    assert deployment.request(None, "GET", "/tasks", headers={"Authorization": text}).status_code == 401


def test_a_missing_and_a_wrong_token_get_different_problems(deployment: Deployment) -> None:
    missing, wrong = deployment.request(None, "GET", "/tasks"), deployment.request(GARBAGE, "GET", "/tasks")

    assert "is required" in missing.json()["detail"]
    assert missing.headers["www-authenticate"] == 'Bearer realm="alacarte"'
    assert "revoked" in wrong.json()["detail"]
    assert wrong.headers["www-authenticate"] == 'Bearer realm="alacarte", error="invalid_token"'


def test_the_scheme_bearer_is_case_insensitive(deployment: Deployment) -> None:
    headers = {"Authorization": f"bEARER {deployment.tokens['user']}"}

    assert deployment.request(None, "GET", "/tasks", headers=headers).status_code == 200
