"""Validation errors are short, however much of a request is invalid."""

import json
from typing import Any

import pytest

from service.http.problems import MAX_ERRORS
from tests.service.deployment import TASK, Deployment

MIB = 2**20
MAX_RESPONSE_BYTES = 10_000
INFER = f"/v2/models/{TASK}/infer"


def unknown_members(count: int) -> dict[str, int]:
    """Return that many members that no document has."""
    return {f"x{number}": number for number in range(count)}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/predict", {"images": [1] * (MIB // 3)}),
        ("/predict", {"images": [1] * 50_000}),
        ("/predict", {"images": ["eHh4"], "sources": [1] * 50_000}),
        ("/predict", {"images": ["eHh4"], **unknown_members(50_000)}),
        ("/predict", {"images": ["eHh4"], "x" * MIB: 1}),
        (INFER, {"inputs": [1] * 50_000}),
        (INFER, {"inputs": [], "outputs": [1] * 50_000}),
        (INFER, {"inputs": [{"name": "image", "datatype": "BYTES", "shape": ["x"] * 50_000}]}),
        ("/tasks", {"name": "a", "backbone": "b", "labels": [1] * MIB}),
        ("/tasks", {"name": "a", "backbone": "b", "recipe": {f"x{number}": None for number in range(50_000)}}),
        ("/tasks", unknown_members(50_000)),
        ("/users", unknown_members(300_000)),
        ("/users", unknown_members(3_000)),
        ("/sources", unknown_members(3_000)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_many_errors_get_a_short_response(path: str, document: dict[str, Any], deployment: Deployment) -> None:
    answer = deployment.request("admin", "POST", path, json=document)

    assert answer.status_code in (413, 422), answer.text[:1000]
    assert len(answer.content) < MAX_RESPONSE_BYTES


def test_many_fields_of_a_form_get_a_short_response(deployment: Deployment) -> None:
    fields = {f"x{number}": "1" for number in range(1900)}

    answer = deployment.request("user", "POST", "/predict", files={"image": b"x"}, data=fields)

    assert answer.status_code == 422
    assert len(answer.content) < MAX_RESPONSE_BYTES


def test_the_first_errors_are_listed_and_the_others_counted(deployment: Deployment) -> None:
    answer = deployment.request("admin", "POST", "/users", json=unknown_members(MAX_ERRORS)).json()

    assert len(answer["errors"]) == MAX_ERRORS
    assert answer["detail"].endswith(f"(and {MAX_ERRORS} more)")  # the required name is missing too


def test_a_task_may_have_many_labels(deployment: Deployment) -> None:
    labels = [f"label {number:06} with the words of a person" for number in range(20_000)]
    assert len(json.dumps(labels)) > MIB // 2

    made = deployment.request(
        "admin", "POST", "/tasks", json={"name": deployment.new_name(), "backbone": "vit", "labels": labels}
    )

    assert made.status_code == 201, made.text[:1000]
    assert deployment.request("admin", "DELETE", f"/tasks/{made.json()['id']}").status_code == 204
