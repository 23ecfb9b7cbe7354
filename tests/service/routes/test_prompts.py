"""Prompts that were trained elsewhere: each is checked in full before it counts."""

from base64 import b64encode
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from safetensors.torch import load, save

from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from tests.prompting.reference import small_backbone, small_prompt
from tests.service.deployment import TASK, Deployment, backbone, picture, prompt_bytes

RAW = {"Content-Type": "application/octet-stream"}


def send(deployment: Deployment, source: UUID, content: bytes) -> Any:
    return deployment.request("manager", "PUT", f"/sources/{source}/prompt", content=content, headers=RAW)


def test_a_sound_prompt_is_served_from_now_on(deployment: Deployment) -> None:
    source = deployment.add_source()

    answer = send(deployment, source, prompt_bytes(7))

    assert answer.status_code == 200, answer.text
    assert answer.json()["digest"] == prompt_digest(prompt_bytes(7))
    asked = {"images": [b64encode(picture()).decode()], "task": TASK, "sources": [str(source)]}
    assert deployment.request("user", "POST", "/predict", json=asked).json()["sources"] == [str(source)]
    assert deployment.request("user", "GET", f"/sources/{source}").json()["shards"][0]["state"] == "remote"


def test_what_is_kept_is_the_one_way_to_write_the_prompt(deployment: Deployment) -> None:
    source = deployment.add_source()
    text = prompt_bytes(8)
    size = int.from_bytes(text[:8], "little")
    # The same prompt with spaces behind its header, which safetensors allows.
    spaced = (size + 8).to_bytes(8, "little") + text[8 : 8 + size] + b" " * 8 + text[8 + size :]

    answer = send(deployment, source, spaced)

    assert answer.json()["digest"] == prompt_digest(text)


def with_nan() -> bytes:
    tensors = load(prompt_bytes())
    tensors["token"][0] = float("nan")
    size = int.from_bytes(prompt_bytes()[:8], "little")
    import json

    facts = json.loads(prompt_bytes()[8 : 8 + size])["__metadata__"]
    return save(tensors, facts)


def of_other_width() -> bytes:
    """A prompt of another backbone that claims to be of this one."""
    other = small_prompt(small_backbone())
    facts = replace(other.metadata, backbone=backbone().identity)
    return prompt_to_bytes(TrainedPrompt(other.tensors, facts))


BAD = {
    "garbage": (b"garbage", 422),
    "nothing": (b"", 422),
    "cut": (prompt_bytes()[:-4], 422),
    "not finite": (with_nan(), 422),
    "other width": (of_other_width(), 422),
    "other backbone": (prompt_to_bytes(small_prompt(small_backbone())), 409),
}


@pytest.mark.parametrize("kind", BAD)
def test_an_unsound_prompt_does_not_count(kind: str, deployment: Deployment) -> None:
    content, status = BAD[kind]
    source = deployment.add_source()

    answer = send(deployment, source, content)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert deployment.request("user", "GET", f"/sources/{source}").json()["shards"] == []
