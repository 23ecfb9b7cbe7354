"""The description of the API: every route says what it does and shows it, and nothing it allows breaks the service."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok

from service.app import create_app
from service.settings import ServiceSettings
from tests.service.world import World

EXAMPLES = 6  # of each route: a look, not a siege
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return create_app(ServiceSettings()).openapi()


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
        assert {"401", "422", "503"} <= operation["responses"].keys(), name


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


def test_nothing_that_the_description_allows_is_an_internal_error(world: World) -> None:
    headers = {"Authorization": f"Bearer {world.tokens['admin']}"}
    schema = schemathesis.openapi.from_url(f"{world.url}/openapi.json", headers=headers)
    seen: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @given(case=operation.as_strategy())
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
            assert answer.status_code < 500, f"{case.as_curl_command()}: {answer.text}"
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == [PROBLEM]

        check()

    assert len(seen) > 40
