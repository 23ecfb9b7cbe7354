"""The device computes with the threads that it is given, and everybody beside it alone."""

import asyncio
import time

import pytest
import torch
from torch import Tensor

from alacarte.prompting.predict import Answer
from registry.usable_set import UsablePrompt
from service.engine import decoding
from service.engine.backbones import Backbones
from service.engine.engine import Compose, Engine
from service.engine.preparing import prepare
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.stage import ANN, Stage, picture

pytestmark = pytest.mark.anyio


async def test_only_the_device_computes_with_several_threads(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}
    embed = stage.backbone.embed

    def note(who: str) -> None:
        seen[who] = torch.get_num_threads()

    def noted_embed(images: Tensor) -> Tensor:
        note("device")
        return embed(images)

    def noted_prepare(*arguments: object) -> Tensor:
        note("decoder")
        return prepare(*arguments)  # type: ignore[arg-type]

    def read(prompt: UsablePrompt) -> bytes:
        note("loader")
        return stage.read(prompt)

    monkeypatch.setattr(stage.backbone, "embed", noted_embed)
    monkeypatch.setattr(decoding, "prepare", noted_prepare)
    settings = EngineSettings(decode_threads=1, compute_threads=3)
    before = torch.get_num_threads()
    prompt = stage.add(small_prompt(stage.backbone))

    def compose_noted(compose: Compose) -> list[Answer]:
        answers = compose()
        note("composer")
        return answers

    async def finish(compose: Compose) -> list[Answer]:
        return await asyncio.to_thread(compose_noted, compose)

    async with Engine(Backbones(settings, lambda *_: stage.backbone), read, settings) as engine:
        for number in range(2):  # also after the others have chosen theirs
            deadline = time.monotonic() + 60
            await engine.answer(
                stage.task, [picture(number)], [prompt], "average", "none", user=ANN, deadline=deadline, finish=finish
            )
            assert seen == {"decoder": 1, "loader": 1, "device": 3, "composer": 1}
            seen = {"loader": seen["loader"]}  # it reads once

    assert torch.get_num_threads() == before
