"""Predictions over HTTP equal those of the method with the caller's prompts; other requests get a clear problem."""

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
import torch

from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.predict import ImagePrediction, Predictor
from alacarte.prompting.prompt.artifact import prompt_from_bytes
from registry.access.caller import OPERATOR
from registry.access.grants import grant_right, revoke_right
from registry.erasure.request import forget_source
from tests.service.deployment import LABELS, TASK, Deployment, backbone, picture, prompt_bytes
from tests.service.prediction.fixtures import after_each_read


def predict_directly(pictures: Sequence[bytes], seeds: Sequence[int], *composition: Any) -> list[ImagePrediction]:
    """Predict with the prompts of these seeds, without the service."""
    prompts = {str(seed): prompt_from_bytes(prompt_bytes(seed)) for seed in seeds}
    images = torch.stack([backbone().preprocessing(decode(one)) for one in pictures])
    return Predictor(backbone(), prompts).predict(images, [list(prompts)] * len(pictures), *composition)


def new_source(deployment: Deployment, *seeds: int) -> str:
    return str(deployment.add_source(seeds=seeds))


def predict(deployment: Deployment, pictures: Sequence[bytes], who: str = "user", **options: Any) -> Any:
    images = [b64encode(one).decode() for one in pictures]
    answer = deployment.request(who, "POST", "/predict", json={"images": images, "task": TASK, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(deployment: Deployment, status: int, who: str = "user", **request: Any) -> Any:
    """Send a request, by default for the prediction of one picture, and return the problem document."""
    answer = deployment.request(who, "POST", "/predict", **request) if request else deployment.predict(who)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def rounded(document: Any) -> Any:
    return json.loads(json.dumps(document), parse_float=lambda text: round(float(text), 4))


def test_the_prediction_equals_that_of_the_method(deployment: Deployment) -> None:
    source = new_source(deployment, 1, 2)
    pictures = [picture(3), picture(90)]

    response = predict(deployment, pictures, sources=[source], top_k=3)

    assert response["sources"] == [source]
    for result, answer in zip(response["results"], predict_directly(pictures, [1, 2]), strict=True):
        assert [one["label"] for one in result["labels"]] == list(answer.labels)
        assert [one["score"] for one in result["labels"]] == pytest.approx(answer.scores.tolist(), abs=1e-4)
        assert response["set_digest"] == answer.set_digest


def test_files_and_base64_get_the_same_prediction(deployment: Deployment) -> None:
    source = new_source(deployment, 1)
    fields = {"task": TASK, "sources": source, "top_k": "2", "explain": "true"}
    files = [("image", ("a.png", picture(1))), ("image", ("b.png", picture(2)))]

    by_form = deployment.request("user", "POST", "/predict", data=fields, files=files).json()
    by_json = predict(deployment, [picture(1), picture(2)], sources=[source], top_k=2, explain=True)

    # Except for the last bits, which depend on whether both pictures were in one batch.
    assert rounded(by_form) == rounded(by_json)


@pytest.mark.parametrize(
    ("composition", "weighting"), [("concat", "none"), ("vote", "none"), ("average", "prototypes")]
)
def test_composition_and_weighting_can_be_chosen(composition: str, weighting: str, deployment: Deployment) -> None:
    source = new_source(deployment, 4, 5)

    response = predict(
        deployment, [picture(7)], sources=[source], composition=composition, weighting=weighting, top_k=3
    )

    answer = predict_directly([picture(7)], [4, 5], composition, weighting)[0]
    assert [one["label"] for one in response["results"][0]["labels"]] == list(answer.labels)
    assert (response["composition"], response["weighting"]) == (composition, weighting)


def test_votes_cannot_be_weighted(deployment: Deployment) -> None:
    document = {"images": [b64encode(picture()).decode()], "composition": "vote", "weighting": "prototypes"}

    assert "votes cannot be weighted" in refusal(deployment, 422, json=document)["detail"]


def test_an_explanation_has_each_source_and_its_prompts(deployment: Deployment) -> None:
    first, second = new_source(deployment, 1, 2), new_source(deployment, 3)

    response = predict(deployment, [picture(5)], sources=[first, second], explain=True, top_k=3)

    explained = {one["source"]: one for one in response["results"][0]["explain"]}
    assert set(explained) == {first, second}
    assert len(explained[first]["prompts"]) == 2
    assert explained[first]["weight"] == pytest.approx(2 / 3)
    assert sum(one["weight"] for one in explained.values()) == pytest.approx(1)
    own = predict_directly([picture(5)], [3])[0]
    assert [one["label"] for one in explained[second]["labels"]] == list(own.labels)


def test_top_k_limits_the_labels(deployment: Deployment) -> None:
    assert len(predict(deployment, [picture()], top_k=1)["results"][0]["labels"]) == 1
    assert len(predict(deployment, [picture()], top_k=1000)["results"][0]["labels"]) == len(LABELS)


def test_a_source_can_be_given_by_name(deployment: Deployment) -> None:
    source = new_source(deployment, 1)
    name = deployment.request("user", "GET", f"/sources/{source}").json()["name"]

    assert predict(deployment, [picture()], sources=[name])["sources"] == [source]


def test_naming_a_source_grants_no_right_to_it(deployment: Deployment) -> None:
    source = new_source(deployment, 1)
    document = {"images": [b64encode(picture()).decode()], "task": TASK, "sources": [source]}

    assert source in refusal(deployment, 404, who="stranger", json=document)["detail"]


def test_a_release_predicts_with_its_pinned_prompts(deployment: Deployment) -> None:
    source = new_source(deployment, 1)
    name = deployment.new_name("release")
    assert deployment.request("admin", "POST", "/releases", json={"task": TASK, "name": name}).status_code == 201
    before = predict(deployment, [picture()], sources=[source], release=name)

    deployment.publish(UUID(source), 2)

    assert predict(deployment, [picture()], sources=[source], release=name) == before
    assert predict(deployment, [picture()], sources=[source])["set_digest"] != before["set_digest"]


@pytest.mark.parametrize(
    ("who", "advice"), [("stranger", "ask its owner or an admin for a grant"), ("admin", "give yourself a grant")]
)
def test_a_caller_without_sources_gets_409_and_advice(who: str, advice: str, deployment: Deployment) -> None:
    problem = refusal(deployment, 409, who=who)

    assert problem["type"] == "urn:alacarte:problem:no-usable-prompts"
    assert advice in problem["detail"]


def test_a_source_without_prompts_gets_409(deployment: Deployment) -> None:
    fields = {"task": TASK, "sources": str(deployment.add_source(samples=1))}

    assert "trained" in refusal(deployment, 409, files={"image": picture()}, data=fields)["detail"]


def bomb() -> bytes:
    """A PNG of few bytes that claims 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("bad", [b"", b"no picture", picture()[:60], bomb()], ids=["empty", "text", "cut", "bomb"])
def test_an_unreadable_picture_is_refused_and_the_next_request_is_served(bad: bytes, deployment: Deployment) -> None:
    problem = refusal(deployment, 422, files=[("image", picture()), ("image", bad)], data={"task": TASK})

    assert "picture 2" in problem["detail"]
    assert predict(deployment, [picture()])["results"]


def typed(content_type: str, content: bytes) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": content_type}}


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (415, typed("text/plain", b"x")),
        (415, {"content": b"x"}),
        (400, typed("application/json", b"{")),
        (400, typed("application/json", b"[" * 100_000)),
        (400, typed("application/json", b"\xff\xfe")),
        (400, typed("multipart/form-data", b"x")),
        (400, typed("multipart/form-data; boundary=b", b"x")),
        (400, typed("multipart/form-data; boundary=b", b"--b\r\nContent-")),
        (422, {"data": {"task": TASK}, "files": {"other": b"x"}}),
        (422, {"json": {"images": []}}),
        (422, {"json": {"images": ["?"]}}),
        (422, {"json": {"images": ["eHh4"], "top_k": 0}}),
        (422, {"json": {"images": ["eHh4"], "unknown": 1}}),
        (422, {"json": ["eHh4"]}),
        (422, {"json": {"images": ["eHh4"] * 65}}),
        (404, {"json": {"images": ["eHh4"], "task": "nope"}}),
        (404, {"json": {"images": ["eHh4"], "task": TASK, "release": "nope"}}),
        (404, typed("application/json", b'{"images": ["eHh4"], "task": "\\ud800"}')),
    ],
)
def test_an_invalid_request_is_refused(status: int, request_: dict[str, Any], deployment: Deployment) -> None:
    refusal(deployment, status, **request_)


def revoke_use(deployment: Deployment, source: UUID, who: str = "user") -> None:
    with deployment.registry.database.write_transaction() as session:
        revoke_right(session, OPERATOR, deployment.users[who], source, "use")


@pytest.mark.parametrize(
    "withdraw",
    [lambda deployment, source: forget_source(deployment.registry, OPERATOR, source), revoke_use],
    ids=["forgotten", "revoked"],
)
def test_a_source_that_is_withdrawn_in_flight_is_not_in_the_answer(
    withdraw: Callable[[Deployment, UUID], object], deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_source(deployment, 1), new_source(deployment, 2)
    after_each_read(monkeypatch, lambda: withdraw(deployment, UUID(second)))

    response = predict(deployment, [picture(9)])

    assert first in response["sources"]
    assert second not in response["sources"]


def test_a_token_that_is_revoked_in_flight_gets_no_answer(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, token = deployment.issue_token()
    after_each_read(monkeypatch, lambda: deployment.request("user", "DELETE", f"/tokens/{number}"))

    refusal(deployment, 401, who=token)


def test_rights_that_change_during_every_attempt_end_in_503(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [new_source(deployment, number) for number in range(3)]
    # Each attempt reads the rights, then loses one of its sources.
    after_each_read(
        monkeypatch, *(lambda one=one: forget_source(deployment.registry, OPERATOR, UUID(one)) for one in sources)
    )

    assert refusal(deployment, 503)["type"] == "urn:alacarte:problem:rights-changed"


def test_a_new_grant_counts_at_once(deployment: Deployment) -> None:
    source = new_source(deployment, 1)
    with deployment.registry.database.write_transaction() as session:
        grant_right(session, OPERATOR, deployment.users["stranger"], UUID(source), "use")
    try:
        assert predict(deployment, [picture()], who="stranger")["sources"] == [source]
    finally:
        revoke_use(deployment, UUID(source), "stranger")
