"""The rights are rechecked after the response is complete, and read again only if an erasure can be the cause."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from registry.access import usable_prompts
from registry.access.caller import OPERATOR
from registry.db.models.catalog import Task
from registry.db.models.prompts import Prompt
from registry.erasure.request import forget_source
from service.prediction import predict as prediction
from service.prediction import rights_recheck
from tests.service.conftest import MakeDeployment
from tests.service.deployment import TASK, Deployment, backbone, picture
from tests.service.prediction.fixtures import after_each_read


@pytest.mark.parametrize(("path", "serialize"), [("predict", "serialize_prediction"), ("oip", "serialize_inference")])
def test_the_response_is_complete_before_the_recheck(
    path: str, serialize: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def recorded(event: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            result = work(*given, **named)
            events.append(event)
            return result

        return wrapped

    monkeypatch.setattr(rights_recheck, "read_usable_prompts", recorded("read", usable_prompts.read_usable_prompts))
    monkeypatch.setattr(
        rights_recheck, "recheck_usable_prompts", recorded("recheck", usable_prompts.recheck_usable_prompts)
    )
    monkeypatch.setattr(prediction, serialize, recorded("serialize", getattr(prediction, serialize)))

    if path == "oip":
        tensor = {"name": "image", "datatype": "BYTES", "shape": [1], "data": [b64encode(picture()).decode()]}
        answer = deployment.request("user", "POST", f"/v2/models/{TASK}/infer", json={"inputs": [tensor]})
    else:
        answer = deployment.predict()

    assert answer.status_code == 200
    assert events == ["read", "serialize", "recheck"]


def test_an_error_that_no_erasure_can_cause_reads_the_rights_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = after_each_read(monkeypatch)

    assert deployment.predict(image=b"no picture").status_code == 422

    assert len(reads) == 1


def test_a_missing_object_makes_the_rights_read_again(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    source = deployment.add_source(seeds=[9])
    with deployment.registry.database.read_transaction() as session:
        prompt = session.scalars(select(Prompt).where(Prompt.source_id == source)).one()
    deployment.registry.objects.remove(prompt.key)
    reads = after_each_read(monkeypatch)

    assert deployment.predict(sources=str(source)).status_code == 500

    assert len(reads) == 2
    forget_source(deployment.registry, OPERATOR, source)


def test_mismatched_weights_are_logged_and_not_described_to_the_caller(
    make_deployment: MakeDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = make_deployment()
    identity = "ab" * 32
    with deployment.registry.database.write_transaction() as session:
        session.execute(update(Task).values(identity=identity))

    answer = deployment.predict()

    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:alacarte:problem:backbone-weights-mismatch"
    assert identity[:12] not in answer.text
    assert backbone().identity[:12] not in answer.text
    logged = next(record for record in caplog.records if record.getMessage() == "request.dependency-unavailable")
    assert identity[:12] in logged.fields["reason"]  # type: ignore[attr-defined]


def test_both_reads_of_the_rights_are_measured(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment()
    for number in range(3):
        assert deployment.predict(image=picture(number)).status_code == 200

    for phase in ("initial", "recheck"):
        assert deployment.metric(f'alacarte_rights_seconds_count{{phase="{phase}"}}') == 3
