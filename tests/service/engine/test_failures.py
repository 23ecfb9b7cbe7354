"""A batch that fails answers everyone in it, and the engine lives on."""

import asyncio
import contextlib
import gc
import weakref
from typing import Any

import pytest
from torch import Tensor

from registry.access.usable_set import UsablePrompt
from registry.errors import DomainError
from registry.storage.errors import StoreUnreachable
from service.engine.backbones import Backbones
from service.engine.decode import prepare
from service.engine.device import FAILURES
from service.engine.engine import Engine
from service.engine.errors import ComputationFailed, DeadlinePassed, Overloaded
from service.engine.settings import EngineSettings
from service.engine.stats import BatchObserved
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, Stage, picture, same, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def prompts(stage: Stage) -> list[UsablePrompt]:
    return [stage.add(small_prompt(stage.backbone, seed=seed)) for seed in range(3)]


def is_well(engine: Engine) -> bool:
    return engine.is_well


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


async def test_who_has_gone_or_waited_too_long_is_not_computed_after_a_failed_batch(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    stage.poison = stage.image(picture(13))
    async with stage.engine() as engine:
        stage.passes.close()
        first = asyncio.create_task(stage.ask(engine, [picture(0)], prompts[:1]))
        await stage.passes.reached()
        bad = asyncio.create_task(stage.ask(engine, [picture(13)], prompts[1:], user=BEN))
        late = asyncio.create_task(stage.ask(engine, [picture(1)], prompts[1:], user=BEN, seconds=1))
        gone = asyncio.create_task(stage.ask(engine, [picture(2)], prompts[1:], user=BEN))
        await until(lambda: engine.facts().ready_pictures == 3)
        stage.passes.open()
        stage.passes.close()
        await stage.passes.reached()  # all three in one batch, which will fail
        gone.cancel()
        with pytest.raises(DeadlinePassed):
            await late
        stage.passes.open()

        with pytest.raises(ComputationFailed):
            await bad
        await first
    assert stage.images == [1, 3, 1]


async def test_a_device_on_which_everything_fails_is_not_well_until_it_is_tried_again(
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.poison = stage.image(picture(13))
    async with stage.engine() as engine:
        assert is_well(engine)
        for _ in range(FAILURES - 1):
            with pytest.raises(ComputationFailed):
                await stage.ask(engine, [picture(13)], prompts)
        assert is_well(engine)
        with pytest.raises(ComputationFailed):
            await stage.ask(engine, [picture(13)], prompts)
        assert not is_well(engine)

        monkeypatch.setattr("service.engine.device.PAUSE_SECONDS", 0.0)
        assert is_well(engine)
        monkeypatch.undo()

        await stage.ask(engine, [picture(1)], prompts)
        assert is_well(engine)


async def test_a_device_whose_thread_ends_answers_everyone_and_is_not_well(
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def end(*_: object) -> None:
        stage.passes.pass_through()
        raise Ended

    async with stage.engine() as engine:
        await stage.ask(engine, [picture(0)], prompts)
        monkeypatch.setattr("service.engine.device.pass_logits", end)
        stage.passes.close()
        first = asyncio.create_task(stage.ask(engine, [picture(0)], prompts))
        await stage.passes.reached()
        second = asyncio.create_task(stage.ask(engine, [picture(1)], prompts, user=BEN))
        await until(lambda: engine.facts().ready_pictures == 1)
        stage.passes.open()

        for asked in (first, second):
            with pytest.raises(ComputationFailed, match="Ended"):
                await asked
        await until(lambda: not is_well(engine))
        with pytest.raises(Overloaded):
            await stage.ask(engine, [picture(2)], prompts)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("fault", ["picture", "store", "device"])
async def test_nothing_of_a_question_that_failed_is_kept(
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch, fault: str, count: int
) -> None:
    images: list[weakref.ref[Tensor]] = []

    def watched(*given: Any) -> Tensor:
        image = prepare(*given)
        images.append(weakref.ref(image))
        return image

    monkeypatch.setattr("service.engine.decode.prepare", watched)
    monkeypatch.setattr("service.engine.device.log.disabled", True)  # else the lines are kept, each with its error
    pictures = [picture(number) for number in range(count)]
    async with stage.engine() as engine:
        if fault == "picture":
            pictures.append(b"no picture")
        elif fault == "store":
            stage.fault = StoreUnreachable("away")
        else:
            stage.poison = stage.image(picture(0))
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(DomainError):
                await stage.ask(engine, pictures, prompts)
                pytest.fail("it should have failed")
            stage.fault = None  # which knows its traceback
            await until(lambda: not any(image() is not None for image in images))
        finally:
            gc.enable()
    assert images
