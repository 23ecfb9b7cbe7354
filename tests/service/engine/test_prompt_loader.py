"""Prompts are read when they are asked for, once for everybody, and let go of when they must be."""

import asyncio
import gc
import weakref
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte.prompting.attention.prompt_slots import precompute
from alacarte.prompting.prompt.tensors import Variant
from registry.access.usable_set import UsablePrompt
from registry.errors import DomainError
from service.engine.prompt_loader import ByteBudget, LoadedPrompt, most_bytes
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import BEN, EngineHarness, picture, same, until

pytestmark = pytest.mark.anyio


def prompts_of(harness: EngineHarness, count: int) -> list[UsablePrompt]:
    return [harness.add(small_prompt(harness.backbone, seed=seed), source=seed) for seed in range(count)]


def small(harness: EngineHarness, slots: int) -> EngineSettings:
    return EngineSettings(prompt_bytes=harness.slots_for(slots), decode_threads=1)


async def test_a_prompt_is_read_once_however_many_wait_for_it(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 3)
    async with harness.engine() as engine:
        harness.read_pause.pause()
        asked = [asyncio.create_task(harness.ask(engine, [picture(n)], prompts, user=UUID(int=n))) for n in range(8)]
        await harness.read_pause.wait_until_reached()
        await until(lambda: engine.stats().misses == 24)
        harness.read_pause.resume()
        await asyncio.gather(*asked)
        facts = engine.stats()

    assert sorted(harness.reads) == sorted(prompt.digest for prompt in prompts)
    assert facts.cached_prompts == 3


async def test_what_is_resident_is_not_read_again(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 3)
    async with harness.engine() as engine:
        await harness.ask(engine, [picture(0)], prompts[:2])
        await harness.ask(engine, [picture(1)], prompts)
        facts = engine.stats()

    assert len(harness.reads) == 3
    assert (facts.hits, facts.misses) == (2, 3)
    assert facts.cached_prompt_bytes > 0


async def test_a_question_with_more_prompts_than_slots_is_answered_in_several_passes(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 10)
    async with harness.engine(small(harness, slots=3)) as engine:
        answers = await harness.ask(engine, [picture(0)], prompts, weighting="prototypes")
        facts = engine.stats()

    same(answers, harness.expect([picture(0)], prompts, weighting="prototypes"))
    assert facts.pairs == 10
    assert facts.pictures >= 4
    assert facts.cached_prompts <= 3


async def test_a_burst_over_more_prompts_than_fit_gets_slower_and_never_fails(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 12)
    sets = [prompts[start : start + 4] for start in (0, 2, 4, 6, 8)]
    async with harness.engine(small(harness, slots=5)) as engine:
        answers = await asyncio.gather(
            *(harness.ask(engine, [picture(n)], sets[n % 5], user=UUID(int=n % 3)) for n in range(40))
        )

    for number, prompts in enumerate(sets):
        expected = harness.expect([picture(n) for n in range(number, 40, 5)], prompts)
        same([answers[n][0] for n in range(number, 40, 5)], expected)


async def test_a_store_that_fails_is_asked_again_by_the_next(harness: EngineHarness) -> None:
    class Unreachable(DomainError):
        status = 503

    prompts = prompts_of(harness, 3)
    harness.fault = Unreachable("no store")
    async with harness.engine() as engine:
        with pytest.raises(Unreachable):
            await harness.ask(engine, [picture(0)], prompts)
        harness.fault = None

        same(await harness.ask(engine, [picture(0)], prompts), harness.expect([picture(0)], prompts))


async def test_an_evicted_prompt_is_read_again_when_it_is_asked_for(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 3)
    async with harness.engine() as engine:
        await harness.ask(engine, [picture(0)], prompts)

        count = engine.evict(lambda prompt: prompt.source_id.int < 2)

        assert count == 2
        assert engine.stats().cached_prompts == 1
        same(await harness.ask(engine, [picture(0)], prompts), harness.expect([picture(0)], prompts))
    assert len(harness.reads) == 5


async def test_a_question_whose_prompts_leave_while_it_waits_fetches_them_again(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 3)
    async with harness.engine() as engine:
        await harness.ask(engine, [picture(0)], prompts)
        harness.forward_pause.pause()
        running = asyncio.create_task(harness.ask(engine, [picture(1)], prompts))
        await harness.forward_pause.wait_until_reached()
        waiting = asyncio.create_task(harness.ask(engine, [picture(2)], prompts, user=BEN))
        await until(lambda: engine.stats().ready_pictures == 1)
        engine.evict(lambda _: True)
        harness.forward_pause.resume()
        await running

        same(await waiting, harness.expect([picture(2)], prompts))
    assert len(harness.reads) == 6


async def test_what_is_evicted_while_its_batch_runs_leaves_right_after_it(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 3)
    async with harness.engine() as engine:
        harness.forward_pause.pause()
        asked = asyncio.create_task(harness.ask(engine, [picture(0)], prompts))
        await harness.forward_pause.wait_until_reached()

        assert engine.evict(lambda prompt: prompt.source_id.int == 0) == 1

        assert engine.stats().cached_prompts == 2
        harness.forward_pause.resume()
        same(await asked, harness.expect([picture(0)], prompts))


async def test_what_was_read_before_an_eviction_and_is_seated_after_it_does_not_stay(harness: EngineHarness) -> None:
    first, second = prompts_of(harness, 2)
    async with harness.engine() as engine:
        harness.forward_pause.pause()
        running = asyncio.create_task(harness.ask(engine, [picture(0)], [first]))
        await harness.forward_pause.wait_until_reached()
        waiting = asyncio.create_task(harness.ask(engine, [picture(1)], [second], user=BEN))
        await until(lambda: engine.stats().ready_pictures == 1)

        engine.evict(lambda _: True)

        harness.forward_pause.resume()
        await asyncio.gather(running, waiting)
        assert engine.stats().cached_prompts == 0


async def test_an_idle_engine_keeps_nothing_of_a_prompt_but_its_slot(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: weakref.WeakSet[LoadedPrompt] = weakref.WeakSet()
    begin = LoadedPrompt.__init__

    def watched(self: LoadedPrompt, *args: object, **named: object) -> None:
        begin(self, *args, **named)  # type: ignore[arg-type]
        alive.add(self)

    monkeypatch.setattr(LoadedPrompt, "__init__", watched)
    prompts = prompts_of(harness, 3)
    async with harness.engine() as engine:
        await harness.ask(engine, [picture(0)], prompts)
        assert engine.stats().cached_prompts == 3
        await until(lambda: gc.collect() >= 0 and not alive)


async def test_pinned_prompts_stay_while_others_come_and_go(harness: EngineHarness) -> None:
    prompts = prompts_of(harness, 8)
    async with harness.engine(small(harness, slots=3)) as engine:
        engine.pin([prompts[0].digest])
        await harness.ask(engine, [picture(0)], prompts[:1])
        for prompt in prompts[1:]:
            await harness.ask(engine, [picture(0)], [prompt])
        await harness.ask(engine, [picture(0)], prompts[:1])

    assert harness.reads.count(prompts[0].digest) == 1


async def test_prompts_of_different_widths_share_the_slots(harness: EngineHarness) -> None:
    kinds: list[tuple[int, Variant]] = [(1, "deep"), (5, "deep"), (9, "deep-shared"), (3, "shallow"), (64, "deep")]
    prompts = [
        harness.add(small_prompt(harness.backbone, variant, seed=memory, memory=memory)) for memory, variant in kinds
    ]
    async with harness.engine() as engine:
        for count in (2, 3, 5):
            answers = await harness.ask(engine, [picture(count)], prompts[:count])
            same(answers, harness.expect([picture(count)], prompts[:count]))


@pytest.mark.parametrize(("variant", "memory"), [("deep", 5), ("deep-shared", 64), ("shallow", 3), ("head-only", 3)])
def test_no_prompt_takes_more_than_it_was_expected_to(harness: EngineHarness, variant: Variant, memory: int) -> None:
    prompt = harness.add(small_prompt(harness.backbone, variant, memory=memory))
    tensors = harness.prompts[str(prompt.id)].tensors

    ready = precompute(harness.backbone, tensors)

    numbers = (ready.token, ready.keys_values, ready.head_weight, ready.head_bias, tensors.prototypes)
    taken = sum(tensor.nbytes for tensor in numbers if tensor is not None)
    assert taken <= most_bytes(harness.backbone, prompt)


async def test_prompts_that_grow_on_their_way_come_in_as_many_passes_as_their_room_takes(
    harness: EngineHarness,
) -> None:
    prompts = [harness.add(small_prompt(harness.backbone, "deep-shared", seed=seed, memory=64)) for seed in range(8)]
    each = most_bytes(harness.backbone, prompts[0])
    assert 8 * prompts[0].size_bytes < 3 * each  # as they are stored they would all fit
    async with harness.engine(EngineSettings(load_bytes=3 * each, decode_threads=1)) as engine:
        answers = await harness.ask(engine, [picture(0)], prompts)
        assert engine.stats().pictures == 3

        await harness.ask(engine, [picture(0)], prompts)
        assert engine.stats().pictures == 4  # once they are here they need no room on the way

    same(answers, harness.expect([picture(0)], prompts))


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 2), st.booleans()), max_size=20))
def test_never_more_is_held_than_there_is_and_all_of_it_comes_back(wishes: list[tuple[int, int, bool]]) -> None:
    held: list[int] = []
    order: list[int] = []

    async def want(number: int, size: int, steps: int, room: ByteBudget) -> None:
        async with room.hold(size):
            order.append(number)
            held.append(min(size, 10))
            assert sum(held) <= 10
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                held.remove(min(size, 10))

    async def story() -> None:
        room = ByteBudget(10)
        tasks = [asyncio.create_task(want(n, size, steps, room)) for n, (size, steps, _) in enumerate(wishes)]
        await asyncio.sleep(0)
        for task, (_, _, is_cancelled) in zip(tasks, wishes, strict=True):
            if is_cancelled:
                task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError | None) for end in ended)
        async with asyncio.timeout(5), room.hold(10):
            assert not held

    asyncio.run(story())

    assert order == sorted(order)
    assert {n for n, (_, _, is_cancelled) in enumerate(wishes) if not is_cancelled} <= set(order)


async def test_whoever_is_cancelled_in_the_line_does_not_keep_the_next_waiting() -> None:
    room = ByteBudget(10)
    async with room.hold(8):
        large = asyncio.create_task(room.hold(10).__aenter__())
        small = asyncio.create_task(room.hold(2).__aenter__())
        await asyncio.sleep(0)
        assert not small.done()

        large.cancel()

        await small
