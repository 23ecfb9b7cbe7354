"""More than can be done: floods, deadlines, callers who go away, and the end."""

import asyncio
from uuid import UUID

import pytest

from registry.access.usable_set import UsablePrompt
from registry.errors import Invalid
from service.engine.engine import Engine
from service.engine.errors import DeadlinePassed, Overloaded
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, EngineHarness, picture, same, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def prompts(harness: EngineHarness) -> list[UsablePrompt]:
    return [harness.add(small_prompt(harness.backbone, seed=seed)) for seed in range(3)]


async def held(harness: EngineHarness, engine: Engine, prompts: list[UsablePrompt]) -> asyncio.Task[object]:
    """A question whose pass is under way, and stays so until the pause_point opens."""
    harness.forward_pause.pause()
    task: asyncio.Task[object] = asyncio.create_task(harness.ask(engine, [picture(99)], prompts, user=UUID(int=9)))
    await harness.forward_pause.wait_until_reached()
    return task


async def test_a_single_question_is_answered_among_the_first_of_anothers_flood(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    finished: list[UUID] = []

    async def ask(user: UUID) -> None:
        await harness.ask(engine, [picture(0)], prompts, user=user)
        finished.append(user)

    async with harness.engine(EngineSettings(batch_pictures=4, decode_threads=1)) as engine:
        first = await held(harness, engine, prompts)
        flood = [asyncio.create_task(ask(ANN)) for _ in range(200)]
        await until(lambda: engine.stats().ready_pictures == 6)
        single = asyncio.create_task(ask(BEN))
        await until(lambda: engine.stats().ready_pictures == 7)
        harness.forward_pause.resume()
        await asyncio.gather(first, single, *flood)

    assert len(finished) == 201
    assert finished.index(BEN) < 16


async def test_a_full_queue_answers_at_once_with_the_time_to_come_again(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine(EngineSettings(batch_pictures=1, queue_pictures=3, decode_threads=1)) as engine:
        first = await held(harness, engine, prompts)
        others = [asyncio.create_task(harness.ask(engine, [picture(n)], prompts)) for n in range(4)]
        await until(lambda: engine.stats().waiting_pictures == 3)

        with pytest.raises(Overloaded) as caught:
            await harness.ask(engine, [picture(5)], prompts)

        harness.forward_pause.resume()
        await asyncio.gather(first, *others)
        same(await harness.ask(engine, [picture(5)], prompts), harness.expect([picture(5)], prompts))
    assert caught.value.retry_after >= 1


async def test_more_pictures_than_the_queue_can_ever_hold_are_refused(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine(EngineSettings(queue_pictures=2, decode_threads=1)) as engine:
        with pytest.raises(Invalid, match="3 pictures are more than the 2"):
            await harness.ask(engine, [picture(0)] * 3, prompts)


async def test_a_question_that_comes_too_late_is_not_begun(harness: EngineHarness, prompts: list[UsablePrompt]) -> None:
    async with harness.engine() as engine:
        with pytest.raises(DeadlinePassed):
            await harness.ask(engine, [picture(0)], prompts, seconds=0)

    assert harness.images == []


async def test_what_expires_while_it_waits_is_dropped_before_it_is_computed(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine() as engine:
        first = await held(harness, engine, prompts)

        with pytest.raises(DeadlinePassed):
            await harness.ask(engine, [picture(0), picture(1)], prompts, seconds=0.05)

        harness.forward_pause.resume()
        await first
        assert engine.stats().active_pictures == 0
    assert harness.images == [1]


async def test_whoever_goes_away_is_dropped(harness: EngineHarness, prompts: list[UsablePrompt]) -> None:
    async with harness.engine() as engine:
        first = await held(harness, engine, prompts)
        gone = asyncio.create_task(harness.ask(engine, [picture(0), picture(1)], prompts))
        stays = asyncio.create_task(harness.ask(engine, [picture(2)], prompts))
        await until(lambda: engine.stats().ready_pictures == 3)

        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone

        harness.forward_pause.resume()
        await first
        same(await stays, harness.expect([picture(2)], prompts))
    assert harness.images == [1, 1, 1]  # the last is the expectation's own


async def test_whoever_goes_away_while_prompts_are_read_leaves_nothing_behind(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine(EngineSettings(load_bytes=1, decode_threads=1)) as engine:
        harness.read_pause.pause()
        gone = asyncio.create_task(harness.ask(engine, [picture(0)], prompts))
        await harness.read_pause.wait_until_reached()
        waiting = asyncio.create_task(harness.ask(engine, [picture(1)], prompts, user=BEN))

        gone.cancel()
        harness.read_pause.resume()

        same(await waiting, harness.expect([picture(1)], prompts))
        assert engine.stats().active_pictures == 0
    assert sorted(harness.reads) == sorted(prompt.digest for prompt in prompts)


async def test_the_end_waits_for_what_was_admitted_and_admits_nothing_more(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    engine = harness.new_engine(EngineSettings(batch_pictures=1, decode_threads=1))
    await engine.__aenter__()
    first = await held(harness, engine, prompts)
    others = [asyncio.create_task(harness.ask(engine, [picture(n)], prompts)) for n in range(5)]
    await until(lambda: engine.stats().waiting_pictures > 0)

    ending = asyncio.create_task(engine.__aexit__(None, None, None))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="not serving"):
        await harness.ask(engine, [picture(0)], prompts)
    assert not ending.done()
    harness.forward_pause.resume()
    await ending

    assert all(task.done() for task in (first, *others))
    for number, task in enumerate(others):
        same(task.result(), harness.expect([picture(number)], prompts))


async def test_an_engine_that_was_not_started_does_not_answer(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    with pytest.raises(Overloaded):
        await harness.ask(harness.new_engine(), [picture(0)], prompts)
