"""The Open Inference Protocol, with Triton's client and with raw requests."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from tests.service.deployment import LABELS, TASK, Deployment, picture


@pytest.fixture
def client(deployment: Deployment) -> Iterator[Any]:  # Any: the client is untyped
    client = triton.InferenceServerClient(deployment.url.removeprefix("http://"))
    yield client
    client.close()


def headers(deployment: Deployment, who: str = "user") -> dict[str, str]:
    return {"Authorization": f"Bearer {deployment.tokens[who]}"}


def image_input(pictures: list[bytes], *, is_binary: bool) -> Any:
    values = pictures if is_binary else [b64encode(one) for one in pictures]
    image = triton.InferInput("image", [len(values)], "BYTES")
    image.set_data_from_numpy(np.array(values, dtype=np.object_), binary_data=is_binary)
    return image


def test_the_client_gets_health_and_metadata(client: Any, deployment: Deployment) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata(headers=headers(deployment))["name"] == "alacarte"
    model = client.get_model_metadata(TASK, headers=headers(deployment))
    assert model["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1]}]
    assert client.is_model_ready(TASK, headers=headers(deployment))
    assert not client.is_model_ready(TASK, headers=headers(deployment, "stranger"))


@pytest.mark.parametrize("is_binary", [True, False], ids=["binary", "json"])
def test_infer_gives_the_labels_of_predict(is_binary: bool, client: Any, deployment: Deployment) -> None:
    pictures = [picture(4), picture(150)]

    inputs = [image_input(pictures, is_binary=is_binary)]
    result = client.infer(TASK, inputs, headers=headers(deployment), request_id="7")

    files = [("image", one) for one in pictures]
    predicted = deployment.request("user", "POST", "/predict", files=files, data={"task": TASK, "top_k": "1"}).json()
    best = [one["labels"][0] for one in predicted["results"]]
    assert [str(label) for label in result.as_numpy("label")] == [one["label"] for one in best]
    assert result.as_numpy("score").tolist() == pytest.approx([one["score"] for one in best], abs=1e-4)
    assert result.get_response()["id"] == "7"
    assert result.get_response()["parameters"]["set_digest"] == predicted["set_digest"]


def test_the_version_in_the_metadata_can_be_used(client: Any, deployment: Deployment) -> None:
    [version] = client.get_model_metadata(TASK, headers=headers(deployment))["versions"]
    inputs = [image_input([picture(4)], is_binary=True)]

    assert client.get_model_metadata(TASK, version, headers=headers(deployment))["name"] == TASK
    assert client.is_model_ready(TASK, version, headers=headers(deployment))
    answer = client.infer(TASK, inputs, model_version=version, headers=headers(deployment)).get_response()
    assert answer["model_version"] == version
    assert [output["name"] for output in answer["outputs"]] == ["label", "score"]
    assert not client.is_model_ready(TASK, "2", headers=headers(deployment))


def test_several_labels_are_a_second_dimension(client: Any, deployment: Deployment) -> None:
    inputs = [image_input([picture(1), picture(2)], is_binary=True)]
    outputs = [triton.InferRequestedOutput("label", binary_data=False)]

    result = client.infer(TASK, inputs, outputs=outputs, headers=headers(deployment), parameters={"top_k": 3})

    assert result.as_numpy("label").shape == (2, 3)
    assert set(result.as_numpy("label")[0]) == set(LABELS)
    assert result.as_numpy("score") is None


def test_errors_reach_the_client(client: Any, deployment: Deployment) -> None:
    with pytest.raises(InferenceServerException, match="no task 'nope'"):
        client.get_model_metadata("nope", headers=headers(deployment))
    with pytest.raises(InferenceServerException, match="grant"):
        client.infer(TASK, [image_input([picture()], is_binary=True)], headers=headers(deployment, "stranger"))
    with pytest.raises(InferenceServerException, match="cannot be read"):
        client.infer(TASK, [image_input([b"no picture"], is_binary=True)], headers=headers(deployment))
    with pytest.raises(InferenceServerException, match="token"):
        client.get_server_metadata()


def infer(deployment: Deployment, **request: Any) -> httpx.Response:
    return deployment.request("user", "POST", f"/v2/models/{TASK}/infer", **request)


def infer_body(**changes: Any) -> dict[str, Any]:
    image = {"name": "image", "shape": [1], "datatype": "BYTES", "data": [b64encode(picture()).decode()], **changes}
    return {"inputs": [image]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"inputs": []},
        infer_body(name="pixels"),
        infer_body(datatype="FP32"),
        infer_body(shape=[2]),
        infer_body(shape=[-1]),
        infer_body(shape=[10**4000 - 1, 10**4000 - 1]),
        infer_body(shape=[10**4000 - 1] * 2000),
        infer_body(shape=[1] * 9),
        {**infer_body(), "outputs": [{"name": "logits"}]},
        infer_body(shape=[0], data=[]),
        infer_body(data=None),
        infer_body(data=[1]),
        infer_body(data=[["x"]]),
        infer_body(data=["?"]),
        infer_body(parameters={"binary_data_size": 4}),
        {**infer_body(), "parameters": {"top_k": "many"}},
        {**infer_body(), "parameters": {"composition": "guess"}},
    ],
)
def test_an_invalid_request_is_refused(body: dict[str, Any], deployment: Deployment) -> None:
    answer = infer(deployment, json=body)

    assert answer.status_code == 422, answer.text
    assert answer.json()["error"] == answer.json()["detail"]


@pytest.mark.parametrize("length", ["100000", "-1", "x"])
def test_an_invalid_header_length_is_refused(length: str, deployment: Deployment) -> None:
    answer = infer(deployment, json=infer_body(), headers={"Inference-Header-Content-Length": length})

    assert answer.status_code == 422


@pytest.mark.parametrize("tail", [b"\x04\x00\x00", b"\x09\x00\x00\x00ab"])
def test_truncated_binary_data_is_refused(tail: bytes, deployment: Deployment) -> None:
    header = json.dumps(infer_body(data=None, parameters={"binary_data_size": len(tail)})).encode()
    headers = {"Inference-Header-Content-Length": str(len(header)), "Content-Type": "application/octet-stream"}

    answer = infer(deployment, content=header + tail, headers=headers)

    assert answer.status_code == 422
    assert "truncated" in answer.json()["detail"]


def test_data_may_be_nested_like_the_shape(deployment: Deployment) -> None:
    text = b64encode(picture()).decode()

    answer = infer(deployment, json=infer_body(shape=[2, 1], data=[[text], [text]]))

    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["shape"] == [2]
