"""A failing batch resolves all its jobs, and the engine goes on."""

import contextlib
import gc
import weakref
from typing import Any

import pytest
from torch import Tensor

from registry.access.usable_prompts import UsablePrompt
from registry.errors import DomainError
from registry.storage.store import StoreUnreachable
from service.engine.decode import decode_picture
from service.engine.device import MAX_FAILURES
from service.engine.engine import Engine
from service.engine.errors import ComputationFailed, DeadlinePassed, Overloaded
from service.engine.stats import BatchStats
from tests.service.engine.fixtures import BEN, EngineHarness, picture, until

pytestmark = pytest.mark.anyio


def is_healthy(engine: Engine) -> bool:
    return engine.is_healthy


async def test_the_prompts_of_a_failed_batch_are_dropped_and_the_next_request_is_computed(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    harness.poison = harness.image(picture(13))
    async with harness.engine() as engine:
        for _ in range(3):
            with pytest.raises(ComputationFailed):
                await harness.predict(engine, [picture(13), picture(1)], prompts)

        with pytest.raises(ComputationFailed):
            await harness.predict(engine, [picture(13)], prompts)
        assert engine.stats().cached_prompts == 0
        await harness.check(engine, [picture(1)], prompts)
        assert engine.stats().active_pictures == 0


async def test_a_failing_observer_fails_no_prediction(harness: EngineHarness, prompts: list[UsablePrompt]) -> None:
    def observe(batch: BatchStats) -> None:
        raise RuntimeError("cannot count")

    harness.observe = observe
    async with harness.engine() as engine:
        await harness.check(engine, [picture(0)], prompts)


async def test_cancelled_and_expired_jobs_of_a_failed_batch_are_not_retried(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    harness.poison = harness.image(picture(13))
    async with harness.engine() as engine:
        first = await harness.start_paused(engine, [picture(0)], prompts[:1])
        bad = harness.start(engine, [picture(13)], prompts[1:], user=BEN)
        late = harness.start(engine, [picture(1)], prompts[1:], user=BEN, seconds=1)
        gone = harness.start(engine, [picture(2)], prompts[1:], user=BEN)
        await until(lambda: engine.stats().ready_pictures == 3)
        harness.forward_pause.resume()
        harness.forward_pause.pause()
        await harness.forward_pause.wait_until_reached()  # all three in one batch, which will fail
        gone.cancel()
        with pytest.raises(DeadlinePassed):
            await late
        harness.forward_pause.resume()

        with pytest.raises(ComputationFailed):
            await bad
        await first
    assert harness.pass_sizes == [1, 3, 1]


async def test_a_device_on_which_everything_fails_is_unhealthy_until_it_may_be_tried_again(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.poison = harness.image(picture(13))
    async with harness.engine() as engine:
        assert is_healthy(engine)
        for _ in range(MAX_FAILURES - 1):
            with pytest.raises(ComputationFailed):
                await harness.predict(engine, [picture(13)], prompts)
        assert is_healthy(engine)
        with pytest.raises(ComputationFailed):
            await harness.predict(engine, [picture(13)], prompts)
        assert not is_healthy(engine)

        monkeypatch.setattr("service.engine.device.RECOVERY_SECONDS", 0.0)
        assert is_healthy(engine)
        monkeypatch.undo()

        await harness.predict(engine, [picture(1)], prompts)
        assert is_healthy(engine)


async def test_a_device_whose_worker_dies_fails_all_jobs_and_is_unhealthy(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def end(*_: object) -> None:
        harness.forward_pause.wait_if_paused()
        raise Ended

    async with harness.engine() as engine:
        await harness.predict(engine, [picture(0)], prompts)
        monkeypatch.setattr("service.engine.device.batch_logits", end)
        first = await harness.start_paused(engine, [picture(0)], prompts)
        second = harness.start(engine, [picture(1)], prompts, user=BEN)
        await until(lambda: engine.stats().ready_pictures == 1)
        harness.forward_pause.resume()

        for request in (first, second):
            with pytest.raises(ComputationFailed, match="Ended"):
                await request
        await until(lambda: not is_healthy(engine))
        with pytest.raises(Overloaded):
            await harness.predict(engine, [picture(2)], prompts)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("cause", ["picture", "store", "device"])
async def test_a_failed_request_leaves_no_picture_in_memory(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch, cause: str, count: int
) -> None:
    images: list[weakref.ref[Tensor]] = []

    def watched(*given: Any) -> Tensor:
        image = decode_picture(*given)
        images.append(weakref.ref(image))
        return image

    monkeypatch.setattr("service.engine.decode.decode_picture", watched)
    monkeypatch.setattr("service.engine.device.log.disabled", True)  # captured log records would reference the error
    pictures = [picture(number) for number in range(count)]
    async with harness.engine() as engine:
        if cause == "picture":
            pictures.append(b"no picture")
        elif cause == "store":
            harness.store_error = StoreUnreachable("away")
        else:
            harness.poison = harness.image(picture(0))
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(DomainError):
                await harness.predict(engine, pictures, prompts)
                pytest.fail("the request did not fail")
            harness.store_error = None  # it references its traceback
            await until(lambda: not any(image() is not None for image in images))
        finally:
            gc.enable()
    assert images
