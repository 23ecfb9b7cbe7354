"""Prompts that were trained elsewhere are validated completely before they are served."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from safetensors.torch import load, save

from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from tests.prompting.reference import small_backbone, small_prompt
from tests.service.deployment import Deployment, backbone, prompt_bytes

RAW = {"Content-Type": "application/octet-stream"}


def push(deployment: Deployment, source: UUID, content: bytes) -> Any:
    return deployment.request("manager", "PUT", f"/sources/{source}/prompt", content=content, headers=RAW)


def test_a_valid_prompt_is_served_at_once(deployment: Deployment) -> None:
    source = deployment.add_source()

    answer = push(deployment, source, prompt_bytes(7))

    assert answer.status_code == 200, answer.text
    assert answer.json()["digest"] == prompt_digest(prompt_bytes(7))
    assert deployment.predict(sources=str(source)).json()["sources"] == [str(source)]
    assert deployment.request("user", "GET", f"/sources/{source}").json()["shards"][0]["state"] == "remote"


def test_the_stored_artifact_is_serialised_again(deployment: Deployment) -> None:
    source = deployment.add_source()
    text = prompt_bytes(8)
    size = int.from_bytes(text[:8], "little")
    # The same prompt with spaces after its header, which safetensors allows.
    spaced = (size + 8).to_bytes(8, "little") + text[8 : 8 + size] + b" " * 8 + text[8 + size :]

    answer = push(deployment, source, spaced)

    assert answer.json()["digest"] == prompt_digest(text)


def with_nan() -> bytes:
    tensors = load(prompt_bytes())
    tensors["token"][0] = float("nan")
    size = int.from_bytes(prompt_bytes()[:8], "little")
    return save(tensors, json.loads(prompt_bytes()[8 : 8 + size])["__metadata__"])


def with_other_width() -> bytes:
    """A prompt of another backbone that claims to be of this one."""
    other = small_prompt(small_backbone())
    metadata = replace(other.metadata, backbone=backbone().identity)
    return prompt_to_bytes(TrainedPrompt(other.tensors, metadata))


BAD = {
    "garbage": (b"garbage", 422),
    "nothing": (b"", 422),
    "cut": (prompt_bytes()[:-4], 422),
    "not finite": (with_nan(), 422),
    "other width": (with_other_width(), 422),
    "other backbone": (prompt_to_bytes(small_prompt(small_backbone())), 409),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_invalid_prompt_is_refused(kind: str, deployment: Deployment) -> None:
    content, status = BAD[kind]
    source = deployment.add_source()

    answer = push(deployment, source, content)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert deployment.request("user", "GET", f"/sources/{source}").json()["shards"] == []
