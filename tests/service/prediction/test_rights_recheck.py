"""The last look at what a caller may use: nothing is left to do after it, and it is taken only where it can matter."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from registry.access import usable_prompts
from registry.access.caller import OPERATOR
from registry.access.usable_prompts import UsablePromptSet
from registry.db.models.catalog import Task
from registry.db.models.prompts import Prompt
from registry.erasure.request import forget_source
from service.prediction import predict as prediction
from service.prediction import rights_recheck
from tests.service.conftest import MakeDeployment
from tests.service.deployment import TASK, Deployment, backbone, picture


def ask(deployment: Deployment, files: Any, **fields: str) -> httpx.Response:  # Any: as httpx has it
    return deployment.request("user", "POST", "/predict", files=files, data={"task": TASK, **fields})


@pytest.mark.parametrize(("path", "serialize"), [("predict", "serialize_prediction"), ("oip", "serialize_inference")])
def test_the_document_is_finished_before_the_last_look(
    path: str, serialize: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    story: list[str] = []

    def noted(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            found = work(*given, **named)
            story.append(what)
            return found

        return wrapped

    monkeypatch.setattr(rights_recheck, "read_usable_prompts", noted("look", usable_prompts.read_usable_prompts))
    monkeypatch.setattr(
        rights_recheck, "recheck_usable_prompts", noted("last look", usable_prompts.recheck_usable_prompts)
    )
    monkeypatch.setattr(prediction, serialize, noted("document", getattr(prediction, serialize)))

    if path == "oip":
        tensor = {"name": "image", "datatype": "BYTES", "shape": [1], "data": [b64encode(picture()).decode()]}
        answer = deployment.request("user", "POST", f"/v2/models/{TASK}/infer", json={"inputs": [tensor]})
    else:
        answer = ask(deployment, {"image": picture()})

    assert answer.status_code == 200
    assert story == ["look", "document", "last look"]


def looks_of(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each look at what a caller may use."""
    looks: list[None] = []

    def usable(*given: Any, **named: Any) -> UsablePromptSet:
        looks.append(None)
        return usable_prompts.read_usable_prompts(*given, **named)

    monkeypatch.setattr(rights_recheck, "read_usable_prompts", usable)
    return looks


def test_a_failure_that_nothing_forgotten_can_cause_costs_no_second_look(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = looks_of(monkeypatch)

    assert ask(deployment, {"image": b"no picture"}).status_code == 422

    assert len(looks) == 1


def test_an_object_that_is_missing_is_looked_for_again(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    source = deployment.add_source()
    deployment.publish(source, 9)
    with deployment.registry.database.read_transaction() as session:
        prompt = session.scalars(select(Prompt).where(Prompt.source_id == source)).one()
    deployment.registry.objects.remove(prompt.key)
    looks = looks_of(monkeypatch)

    assert ask(deployment, {"image": picture()}, sources=str(source)).status_code == 500

    assert len(looks) == 2
    forget_source(deployment.registry, OPERATOR, source)


def test_weights_that_do_not_fit_are_told_to_the_operator_alone(
    make_deployment: MakeDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = make_deployment()
    identity = "ab" * 32
    with deployment.registry.database.write_transaction() as session:
        session.execute(update(Task).values(identity=identity))

    answer = ask(deployment, {"image": picture()})

    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:alacarte:problem:backbone-weights-mismatch"
    assert identity[:12] not in answer.text
    assert backbone().identity[:12] not in answer.text
    logged = next(record for record in caplog.records if record.getMessage() == "request.dependency-unavailable")
    assert identity[:12] in logged.fields["reason"]  # type: ignore[attr-defined]
