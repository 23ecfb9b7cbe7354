"""A batch that fails answers everyone in it, and the engine lives on."""

import asyncio

import pytest

from registry.usable_set import UsablePrompt
from service.engine.backbones import Backbones
from service.engine.engine import Engine
from service.engine.errors import ComputationFailed
from service.engine.facts import BatchObserved
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.stage import ANN, BEN, Stage, picture, same, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def prompts(stage: Stage) -> list[UsablePrompt]:
    return [stage.add(small_prompt(stage.backbone, seed=seed)) for seed in range(3)]


async def test_a_poisonous_picture_fails_alone(stage: Stage, prompts: list[UsablePrompt]) -> None:
    stage.poison = stage.image(picture(13))
    async with stage.engine() as engine:
        stage.passes.close()
        first = asyncio.create_task(stage.ask(engine, [picture(0)], prompts))
        await stage.passes.reached()
        bad = asyncio.create_task(stage.ask(engine, [picture(13)], prompts, user=BEN))
        good = [asyncio.create_task(stage.ask(engine, [picture(n)], prompts[n:], user=ANN)) for n in (1, 2)]
        await until(lambda: engine.facts().ready_pictures == 3)
        stage.passes.open()

        with pytest.raises(ComputationFailed, match="RuntimeError") as caught:
            await bad
        await first
        answers = [await task for task in good]

        assert engine.facts().failures == 1
    assert caught.value.status == 500
    for n, answer in zip((1, 2), answers, strict=True):
        same(answer, stage.expect([picture(n)], prompts[n:]))


async def test_after_a_failure_the_next_question_is_answered(stage: Stage, prompts: list[UsablePrompt]) -> None:
    stage.poison = stage.image(picture(13))
    async with stage.engine() as engine:
        for _ in range(3):
            with pytest.raises(ComputationFailed):
                await stage.ask(engine, [picture(13), picture(1)], prompts)

        same(await stage.ask(engine, [picture(1)], prompts), stage.expect([picture(1)], prompts))
        assert engine.facts().pictures_under_way == 0


async def test_prompts_that_a_failed_batch_used_are_fetched_again(stage: Stage, prompts: list[UsablePrompt]) -> None:
    stage.poison = stage.image(picture(13))
    async with stage.engine() as engine:
        with pytest.raises(ComputationFailed):
            await stage.ask(engine, [picture(13)], prompts)

        assert engine.facts().resident_prompts == 0


async def test_an_observer_that_fails_spoils_no_answer(stage: Stage, prompts: list[UsablePrompt]) -> None:
    def observe(batch: BatchObserved) -> None:
        raise RuntimeError("cannot count")

    settings = EngineSettings(decode_threads=1)
    async with Engine(Backbones(settings, lambda *_: stage.backbone), stage.read, settings, observe) as engine:
        same(await stage.ask(engine, [picture(0)], prompts), stage.expect([picture(0)], prompts))
