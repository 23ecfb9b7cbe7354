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
from tests.service.engine.fixtures import ANN, BEN, Stage, picture, same, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def prompts(stage: Stage) -> list[UsablePrompt]:
    return [stage.add(small_prompt(stage.backbone, seed=seed)) for seed in range(3)]


async def held(stage: Stage, engine: Engine, prompts: list[UsablePrompt]) -> asyncio.Task[object]:
    """A question whose pass is under way, and stays so until the gate opens."""
    stage.passes.close()
    task: asyncio.Task[object] = asyncio.create_task(stage.ask(engine, [picture(99)], prompts, user=UUID(int=9)))
    await stage.passes.reached()
    return task


async def test_a_single_question_is_answered_among_the_first_of_anothers_flood(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    finished: list[UUID] = []

    async def ask(user: UUID) -> None:
        await stage.ask(engine, [picture(0)], prompts, user=user)
        finished.append(user)

    async with stage.engine(EngineSettings(batch_pictures=4, decode_threads=1)) as engine:
        first = await held(stage, engine, prompts)
        flood = [asyncio.create_task(ask(ANN)) for _ in range(200)]
        await until(lambda: engine.facts().ready_pictures == 6)
        single = asyncio.create_task(ask(BEN))
        await until(lambda: engine.facts().ready_pictures == 7)
        stage.passes.open()
        await asyncio.gather(first, single, *flood)

    assert len(finished) == 201
    assert finished.index(BEN) < 16


async def test_a_full_queue_answers_at_once_with_the_time_to_come_again(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    async with stage.engine(EngineSettings(batch_pictures=1, queue_pictures=3, decode_threads=1)) as engine:
        first = await held(stage, engine, prompts)
        others = [asyncio.create_task(stage.ask(engine, [picture(n)], prompts)) for n in range(4)]
        await until(lambda: engine.facts().waiting_pictures == 3)

        with pytest.raises(Overloaded) as caught:
            await stage.ask(engine, [picture(5)], prompts)

        stage.passes.open()
        await asyncio.gather(first, *others)
        same(await stage.ask(engine, [picture(5)], prompts), stage.expect([picture(5)], prompts))
    assert caught.value.retry_after >= 1


async def test_more_pictures_than_the_queue_can_ever_hold_are_refused(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    async with stage.engine(EngineSettings(queue_pictures=2, decode_threads=1)) as engine:
        with pytest.raises(Invalid, match="3 pictures are more than the 2"):
            await stage.ask(engine, [picture(0)] * 3, prompts)


async def test_a_question_that_comes_too_late_is_not_begun(stage: Stage, prompts: list[UsablePrompt]) -> None:
    async with stage.engine() as engine:
        with pytest.raises(DeadlinePassed):
            await stage.ask(engine, [picture(0)], prompts, seconds=0)

    assert stage.images == []


async def test_what_expires_while_it_waits_is_dropped_before_it_is_computed(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    async with stage.engine() as engine:
        first = await held(stage, engine, prompts)

        with pytest.raises(DeadlinePassed):
            await stage.ask(engine, [picture(0), picture(1)], prompts, seconds=0.05)

        stage.passes.open()
        await first
        assert engine.facts().pictures_under_way == 0
    assert stage.images == [1]


async def test_whoever_goes_away_is_dropped(stage: Stage, prompts: list[UsablePrompt]) -> None:
    async with stage.engine() as engine:
        first = await held(stage, engine, prompts)
        gone = asyncio.create_task(stage.ask(engine, [picture(0), picture(1)], prompts))
        stays = asyncio.create_task(stage.ask(engine, [picture(2)], prompts))
        await until(lambda: engine.facts().ready_pictures == 3)

        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone

        stage.passes.open()
        await first
        same(await stays, stage.expect([picture(2)], prompts))
    assert stage.images == [1, 1, 1]  # the last is the expectation's own


async def test_whoever_goes_away_while_prompts_are_read_leaves_nothing_behind(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    async with stage.engine(EngineSettings(load_bytes=1, decode_threads=1)) as engine:
        stage.store.close()
        gone = asyncio.create_task(stage.ask(engine, [picture(0)], prompts))
        await stage.store.reached()
        waiting = asyncio.create_task(stage.ask(engine, [picture(1)], prompts, user=BEN))

        gone.cancel()
        stage.store.open()

        same(await waiting, stage.expect([picture(1)], prompts))
        assert engine.facts().pictures_under_way == 0
    assert sorted(stage.reads) == sorted(prompt.digest for prompt in prompts)


async def test_the_end_waits_for_what_was_admitted_and_admits_nothing_more(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    engine = stage.new_engine(EngineSettings(batch_pictures=1, decode_threads=1))
    await engine.__aenter__()
    first = await held(stage, engine, prompts)
    others = [asyncio.create_task(stage.ask(engine, [picture(n)], prompts)) for n in range(5)]
    await until(lambda: engine.facts().waiting_pictures > 0)

    ending = asyncio.create_task(engine.__aexit__(None, None, None))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="not serving"):
        await stage.ask(engine, [picture(0)], prompts)
    assert not ending.done()
    stage.passes.open()
    await ending

    assert all(task.done() for task in (first, *others))
    for number, task in enumerate(others):
        same(task.result(), stage.expect([picture(number)], prompts))


async def test_an_engine_that_was_not_started_does_not_answer(stage: Stage, prompts: list[UsablePrompt]) -> None:
    with pytest.raises(Overloaded):
        await stage.ask(stage.new_engine(), [picture(0)], prompts)
