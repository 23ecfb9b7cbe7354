"""The engine under load: floods, deadlines, cancelled callers and shutdown."""

import asyncio
from uuid import UUID

import pytest

from registry.access.usable_prompts import UsablePrompt
from service.engine.errors import DeadlinePassed, Overloaded
from service.engine.settings import EngineSettings
from tests.service.engine.fixtures import ANN, BEN, EngineHarness, assert_same, picture, until

pytestmark = pytest.mark.anyio


async def test_a_single_picture_is_computed_among_the_first_of_another_users_flood(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    finished: list[UUID] = []

    async def predict(user: UUID) -> None:
        await harness.predict(engine, [picture(0)], prompts, user=user)
        finished.append(user)

    async with harness.engine(EngineSettings(max_batch=4, decode_threads=1)) as engine:
        first = await harness.start_paused(engine, [picture(99)], prompts, user=UUID(int=9))
        flood = [asyncio.create_task(predict(ANN)) for _ in range(200)]
        await until(lambda: engine.stats().ready_pictures == 6)
        single = asyncio.create_task(predict(BEN))
        await until(lambda: engine.stats().ready_pictures == 7)
        harness.forward_pause.resume()
        await asyncio.gather(first, single, *flood)

    assert len(finished) == 201
    assert finished.index(BEN) < 16


async def test_a_full_queue_refuses_at_once_with_a_retry_time(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine(EngineSettings(max_batch=1, max_waiting=3, decode_threads=1)) as engine:
        first = await harness.start_paused(engine, [picture(99)], prompts, user=UUID(int=9))
        others = [harness.start(engine, [picture(n)], prompts) for n in range(4)]
        await until(lambda: engine.stats().waiting_pictures == 3)

        with pytest.raises(Overloaded) as caught:
            await harness.predict(engine, [picture(5)], prompts)

        harness.forward_pause.resume()
        await asyncio.gather(first, *others)
        await harness.check(engine, [picture(5)], prompts)
    assert caught.value.retry_after >= 1


@pytest.mark.parametrize("seconds", [0, 0.05], ids=["before it is started", "in the queue"])
async def test_a_request_that_expires_is_not_computed(
    harness: EngineHarness, prompts: list[UsablePrompt], seconds: float
) -> None:
    async with harness.engine() as engine:
        first = await harness.start_paused(engine, [picture(99)], prompts, user=UUID(int=9))

        with pytest.raises(DeadlinePassed):
            await harness.predict(engine, [picture(0), picture(1)], prompts, seconds=seconds)

        harness.forward_pause.resume()
        await first
        assert engine.stats().active_pictures == 0
    assert harness.pass_sizes == [1]


async def test_a_cancelled_request_is_not_computed(harness: EngineHarness, prompts: list[UsablePrompt]) -> None:
    async with harness.engine() as engine:
        first = await harness.start_paused(engine, [picture(99)], prompts, user=UUID(int=9))
        gone = harness.start(engine, [picture(0), picture(1)], prompts)
        staying = harness.start(engine, [picture(2)], prompts)
        await until(lambda: engine.stats().ready_pictures == 3)

        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone

        harness.forward_pause.resume()
        await first
        assert_same(await staying, harness.expect([picture(2)], prompts))
    assert harness.pass_sizes == [1, 1, 1]  # the last is that of `expect`


async def test_a_request_cancelled_while_prompts_are_read_releases_everything(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine(EngineSettings(load_bytes=1, decode_threads=1)) as engine:
        harness.read_pause.pause()
        gone = harness.start(engine, [picture(0)], prompts)
        await harness.read_pause.wait_until_reached()
        waiting = harness.start(engine, [picture(1)], prompts, user=BEN)

        gone.cancel()
        harness.read_pause.resume()

        assert_same(await waiting, harness.expect([picture(1)], prompts))
        assert engine.stats().active_pictures == 0
    assert sorted(harness.reads) == sorted(prompt.digest for prompt in prompts)


async def test_an_engine_refuses_before_its_start_and_from_its_shutdown_which_finishes_admitted_requests(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    engine = harness.new_engine(EngineSettings(max_batch=1, decode_threads=1))
    with pytest.raises(Overloaded):
        await harness.predict(engine, [picture(0)], prompts)
    await engine.__aenter__()
    first = await harness.start_paused(engine, [picture(99)], prompts, user=UUID(int=9))
    others = [harness.start(engine, [picture(n)], prompts) for n in range(5)]
    await until(lambda: engine.stats().waiting_pictures > 0)

    ending = asyncio.create_task(engine.__aexit__(None, None, None))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="not serving"):
        await harness.predict(engine, [picture(0)], prompts)
    assert not ending.done()
    harness.forward_pause.resume()
    await ending

    assert (engine.stats().active_pictures, engine.stats().waiting_pictures) == (0, 0)
    await first
    for number, task in enumerate(others):
        assert_same(await task, harness.expect([picture(number)], prompts))
