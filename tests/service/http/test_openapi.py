"""The description of the API: every route says what it does and shows it, and nothing it allows breaks the service."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.app import create_app
from service.http.openapi import ApiApp
from service.settings import ServiceSettings
from tests.service.deployment import Deployment

EXAMPLES = 6  # of each route: a look, not a siege
PROBLEM = "application/problem+json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return create_app(ServiceSettings()).openapi()


def test_the_description_is_written_once(
    deployment: Deployment, described: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deployment.request("user", "GET", "/openapi.json")
    monkeypatch.setattr(ApiApp, "openapi", lambda _: {})

    again = deployment.request("user", "GET", "/openapi.json")

    assert first.json() == described
    assert again.content == first.content
    assert again.headers["content-type"] == "application/json"


def operations(described: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_says_what_it_does(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        assert operation["summary"], name
        assert operation["description"].strip().endswith((".", ":")), name
        assert operation["tags"], name


def test_every_route_says_how_it_refuses(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert PROBLEM in response["content"], f"{name} {status}"
        statuses = operation["responses"].keys()
        assert {"500", "503"} <= statuses, name
        assert ({"401", "429"} <= statuses) == ("security" in operation), name
        assert ({"400", "408", "413", "415"} <= statuses) == ("requestBody" in operation), name
        assert ("422" in statuses) == ("requestBody" in operation or "parameters" in operation), name


def test_every_answer_says_which_headers_it_has(described: dict[str, Any]) -> None:
    wanted = {"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"}
    for name, operation in operations(described):
        for status, response in operation["responses"].items():
            assert "X-Request-ID" in response["headers"], f"{name} {status}"
            assert status not in wanted or wanted[status] in response["headers"], f"{name} {status}"
    made = {name for name, operation in operations(described) if "Location" in _made(operation)}
    assert {"post /tasks", "post /users", "post /sources", "post /releases", "delete /sources/{source_id}"} <= made


def _made(operation: dict[str, Any]) -> set[str]:
    """The headers of the answers that tell of something new."""
    return {header for status in ("201", "202") for header in operation["responses"].get(status, {}).get("headers", {})}


@pytest.mark.parametrize(
    ("status", "method", "path", "request_"),
    [
        (400, "POST", "/predict", {"content": b"{", "headers": {"Content-Type": "application/json"}}),
        (404, "GET", "/tasks/nope", {}),
        (413, "POST", "/users", {"json": {"name": "x" * 100_000}}),
        (415, "POST", "/users", {"content": b"x"}),
        (422, "POST", "/users", {"json": {}}),
    ],
)
def test_the_example_of_a_problem_is_of_its_kind(
    status: int, method: str, path: str, request_: Any, deployment: Deployment, described: dict[str, Any]
) -> None:
    answer = deployment.request("admin", method, path, **request_)

    assert answer.status_code == status
    operation = described["paths"][path.replace("nope", "{task}")][method.lower()]
    example = operation["responses"][str(status)]["content"][PROBLEM]["example"]
    assert {name: answer.json()[name] for name in ("type", "title", "status")} == {
        name: example[name] for name in ("type", "title", "status")
    }


def test_everything_but_health_wants_a_token(described: dict[str, Any]) -> None:
    without = {name for name, operation in operations(described) if "security" not in operation}

    assert without == {"get /healthz", "get /readyz", "get /v2/health/live", "get /v2/health/ready"}


def test_every_document_that_comes_or_goes_has_an_example(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    for name, operation in operations(described):
        answers = [response for status, response in operation["responses"].items() if status.startswith("2")]
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for place in (*answers, *bodies):
            document = place.get("content", {}).get("application/json", {})
            reference = document.get("schema", {}).get("$ref", "")
            if not reference or "health" in operation["tags"] or "example" in document:
                continue
            schema = schemas[reference.rpartition("/")[2]]
            if "items" in schema.get("properties", {}):  # a page of documents
                schema = schemas[schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]]
            assert "example" in schema, f"{name}: {reference}"


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            found = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return found.union(*(references(value) for value in node.values()))
        return set().union(*(references(value) for value in node)) if isinstance(node, list) else set()

    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert references(described) <= known


# What must have been done at least once, so that a run which is refused everywhere shows nothing.
REACHED = {
    "GET /tasks",
    "GET /sources",
    "GET /erasures",
    "GET /users",
    "GET /users/me",
    "GET /tokens",
    "GET /grants",
    "GET /releases",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /v2",
    "GET /v2/health/live",
    "GET /v2/health/ready",
    "POST /tasks",
    "POST /tokens",
    "POST /users",
}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_answer_is_one_that_the_description_has(mode: GenerationMode, deployment: Deployment) -> None:
    headers = {"Authorization": f"Bearer {deployment.tokens['admin']}"}
    schema = schemathesis.openapi.from_url(f"{deployment.url}/openapi.json", headers=headers)
    seen: dict[str, set[int]] = {}
    reading: set[str] = set()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if operation.body:
            reading.add(operation.label)

        @given(case=operation.as_strategy(mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def check(case: Any) -> None:
            answer = case.call(headers=headers)
            seen.setdefault(case.operation.label, set()).add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)

        try:
            check()
        except Unsatisfiable:  # nothing can be wrong where nothing is read
            assert mode is GenerationMode.NEGATIVE

    if mode is GenerationMode.POSITIVE:
        reached = {label for label, statuses in seen.items() if any(status < 300 for status in statuses)}
        assert reached >= REACHED
    else:
        refusing = {label for label, statuses in seen.items() if any(400 <= status < 500 for status in statuses)}
        assert reading
        assert refusing >= reading
    assert len(seen) > 40
