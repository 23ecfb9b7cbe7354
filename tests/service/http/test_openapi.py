"""The OpenAPI document is complete, and requests generated from it get the responses that it describes."""

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

EXAMPLES = 8  # of each route
PROBLEM = "application/problem+json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(ServiceSettings()).openapi()


def test_the_document_is_serialised_once(
    deployment: Deployment, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deployment.request("user", "GET", "/openapi.json")
    monkeypatch.setattr(ApiApp, "openapi", lambda _: {})

    again = deployment.request("user", "GET", "/openapi.json")

    assert first.json() == document
    assert again.content == first.content
    assert again.headers["content-type"] == "application/json"


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_described_and_lists_its_errors(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"].strip().endswith((".", ":")), name
        assert operation["tags"], name
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert PROBLEM in response["content"], f"{name} {status}"
        statuses = operation["responses"].keys()
        assert {"500", "503"} <= statuses, name
        assert ({"401", "429"} <= statuses) == ("security" in operation), name
        assert ({"400", "408", "413", "415"} <= statuses) == ("requestBody" in operation), name
        assert ("422" in statuses) == ("requestBody" in operation or "parameters" in operation), name


def test_every_response_lists_its_headers(document: dict[str, Any]) -> None:
    required = {"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"}
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            assert "X-Request-ID" in response["headers"], f"{name} {status}"
            assert status not in required or required[status] in response["headers"], f"{name} {status}"
    located = {
        name
        for name, operation in operations(document)
        for status in ("201", "202")
        if "Location" in operation["responses"].get(status, {}).get("headers", {})
    }
    assert {"post /tasks", "post /users", "post /sources", "post /releases", "delete /sources/{source_id}"} <= located


@pytest.mark.parametrize(
    ("status", "method", "path", "request_"),
    [
        (400, "POST", "/predict", {"content": b"{", "headers": {"Content-Type": "application/json"}}),
        (404, "GET", "/tasks/nope", {}),
        (413, "POST", "/users", {"json": {"name": "x" * 70_000}}),
        (415, "POST", "/users", {"content": b"x"}),
        (422, "POST", "/users", {"json": {}}),
    ],
)
def test_the_example_of_a_problem_is_a_real_one(
    status: int, method: str, path: str, request_: Any, deployment: Deployment, document: dict[str, Any]
) -> None:
    answer = deployment.request("admin", method, path, **request_)

    assert answer.status_code == status
    operation = document["paths"][path.replace("nope", "{task}")][method.lower()]
    example = operation["responses"][str(status)]["content"][PROBLEM]["example"]
    assert {name: answer.json()[name] for name in ("type", "title", "status")} == {
        name: example[name] for name in ("type", "title", "status")
    }


def test_everything_but_health_requires_a_token(document: dict[str, Any]) -> None:
    without = {name for name, operation in operations(document) if "security" not in operation}

    assert without == {"get /healthz", "get /readyz", "get /v2/health/live", "get /v2/health/ready"}


def test_every_request_and_response_has_an_example(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, operation in operations(document):
        responses = [response for status, response in operation["responses"].items() if status.startswith("2")]
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for part in (*responses, *bodies):
            body = part.get("content", {}).get("application/json", {})
            reference = body.get("schema", {}).get("$ref", "")
            if not reference or "health" in operation["tags"] or "example" in body:
                continue
            schema = schemas[reference.rpartition("/")[2]]
            if "items" in schema.get("properties", {}):  # a page of documents
                schema = schemas[schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]]
            assert "example" in schema, f"{name}: {reference}"


def test_every_reference_exists(document: dict[str, Any]) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        return set().union(*(references(value) for value in node)) if isinstance(node, list) else set()

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_response_conforms_to_the_document(mode: GenerationMode, deployment: Deployment) -> None:
    headers = {"Authorization": f"Bearer {deployment.tokens['admin']}"}
    schema = schemathesis.openapi.from_url(f"{deployment.url}/openapi.json", headers=headers)
    observed: dict[str, set[int]] = {}
    with_body: set[str] = set()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.body:
            with_body.add(operation.label)

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
            observed.setdefault(case.operation.label, set()).add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)

        try:
            check()
        except Unsatisfiable:  # an operation without input cannot be called wrongly
            assert mode is GenerationMode.NEGATIVE

    if mode is GenerationMode.POSITIVE:
        reached = {label for label, statuses in observed.items() if any(status < 300 for status in statuses)}
        without_parameters = {label for label in observed if label.startswith("GET") and "{" not in label}
        assert len(without_parameters) >= 14
        assert reached >= without_parameters | {"POST /tasks", "POST /tokens", "POST /users"}
    else:
        refusing = {label for label, statuses in observed.items() if any(400 <= status < 500 for status in statuses)}
        assert with_body
        assert refusing >= with_body
    assert len(observed) > 40
