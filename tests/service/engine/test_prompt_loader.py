"""Prompts are loaded on demand, once for all waiters, and dropped when they must be."""

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from alacarte.prompting.attention.prompt_slots import precompute
from alacarte.prompting.prompt.metadata import Variant
from registry.access.usable_prompts import UsablePrompt
from registry.storage.store import StoreUnreachable
from service.engine.fair_queue import ByteBudget
from service.engine.prompt_loader import LoadedPrompt, PromptLoader
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import BEN, EngineHarness, assert_same, picture, until

pytestmark = pytest.mark.anyio


def small_cache(harness: EngineHarness, slots: int) -> EngineSettings:
    return EngineSettings(prompt_cache_bytes=harness.slots_for(slots), decode_threads=1)


def max_bytes(harness: EngineHarness, prompt: UsablePrompt) -> int:
    return PromptLoader(harness.backbone, harness.read, ThreadPoolExecutor(1), ByteBudget(1)).max_bytes(prompt)


async def test_a_prompt_is_read_once_for_all_waiters_and_not_again_while_it_is_cached(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine() as engine:
        harness.read_pause.pause()
        tasks = [harness.start(engine, [picture(n)], prompts[:2], user=UUID(int=n)) for n in range(8)]
        await harness.read_pause.wait_until_reached()
        await until(lambda: engine.stats().misses == 16)
        harness.read_pause.resume()
        await asyncio.gather(*tasks)
        await harness.predict(engine, [picture(1)], prompts)
        stats = engine.stats()

    assert sorted(harness.reads) == sorted(prompt.digest for prompt in prompts)
    assert (stats.hits, stats.misses, stats.cached_prompts) == (2, 17, 3)
    assert stats.cached_prompt_bytes > 0


async def test_a_request_with_more_prompts_than_slots_takes_several_passes(harness: EngineHarness) -> None:
    prompts = harness.add_prompts(10)
    async with harness.engine(small_cache(harness, slots=3)) as engine:
        predictions = await harness.predict(engine, [picture(0)], prompts, weighting="prototypes")
        stats = engine.stats()

    assert_same(predictions, harness.expect([picture(0)], prompts, weighting="prototypes"))
    assert stats.pairs == 10
    assert stats.pictures >= 4
    assert stats.cached_prompts <= 3


async def test_a_burst_over_more_prompts_than_fit_does_not_fail(harness: EngineHarness) -> None:
    prompts = harness.add_prompts(12)
    sets = [prompts[start : start + 4] for start in (0, 2, 4, 6, 8)]
    async with harness.engine(small_cache(harness, slots=5)) as engine:
        predictions = await asyncio.gather(
            *(harness.predict(engine, [picture(n)], sets[n % 5], user=UUID(int=n % 3)) for n in range(40))
        )

    for number, prompts in enumerate(sets):
        expected = harness.expect([picture(n) for n in range(number, 40, 5)], prompts)
        assert_same([predictions[n][0] for n in range(number, 40, 5)], expected)


async def test_a_failed_read_is_tried_again_by_the_next_request(harness: EngineHarness) -> None:
    prompts = harness.add_prompts(3)
    harness.store_error = StoreUnreachable("store down")
    async with harness.engine() as engine:
        with pytest.raises(StoreUnreachable):
            await harness.predict(engine, [picture(0)], prompts)
        harness.store_error = None

        await harness.check(engine, [picture(0)], prompts)


async def test_an_evicted_prompt_is_read_again_on_demand(harness: EngineHarness, prompts: list[UsablePrompt]) -> None:
    async with harness.engine() as engine:
        await harness.predict(engine, [picture(0)], prompts)

        count = engine.evict(lambda prompt: prompt.source_id.int < 2)

        assert count == 2
        assert engine.stats().cached_prompts == 1
        await harness.check(engine, [picture(0)], prompts)
    assert len(harness.reads) == 5


async def test_a_request_whose_prompts_are_evicted_while_it_waits_loads_them_again(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine() as engine:
        await harness.predict(engine, [picture(0)], prompts)
        running = await harness.start_paused(engine, [picture(1)], prompts)
        waiting = harness.start(engine, [picture(2)], prompts, user=BEN)
        await until(lambda: engine.stats().ready_pictures == 1)
        engine.evict(lambda _: True)
        harness.forward_pause.resume()
        await running

        assert_same(await waiting, harness.expect([picture(2)], prompts))
    assert len(harness.reads) == 6


async def test_a_prompt_evicted_while_its_batch_runs_leaves_right_after_it(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    async with harness.engine() as engine:
        tasks = await harness.start_paused(engine, [picture(0)], prompts)

        assert engine.evict(lambda prompt: prompt.source_id.int == 0) == 1

        assert engine.stats().cached_prompts == 2
        harness.forward_pause.resume()
        assert_same(await tasks, harness.expect([picture(0)], prompts))


async def test_a_prompt_read_before_an_eviction_and_placed_after_it_does_not_stay(harness: EngineHarness) -> None:
    first, second = harness.add_prompts(2)
    async with harness.engine() as engine:
        running = await harness.start_paused(engine, [picture(0)], [first])
        waiting = harness.start(engine, [picture(1)], [second], user=BEN)
        await until(lambda: engine.stats().ready_pictures == 1)

        engine.evict(lambda _: True)

        harness.forward_pause.resume()
        await asyncio.gather(running, waiting)
        assert engine.stats().cached_prompts == 0


async def test_an_idle_engine_keeps_no_loaded_prompt_besides_its_slot(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: weakref.WeakSet[LoadedPrompt] = weakref.WeakSet()
    init = LoadedPrompt.__init__

    def watched(self: LoadedPrompt, *args: object, **named: object) -> None:
        init(self, *args, **named)  # type: ignore[arg-type]
        alive.add(self)

    monkeypatch.setattr(LoadedPrompt, "__init__", watched)
    async with harness.engine() as engine:
        await harness.predict(engine, [picture(0)], prompts)
        assert engine.stats().cached_prompts == 3
        await until(lambda: gc.collect() >= 0 and not alive)


async def test_pinned_prompts_stay_while_others_are_evicted(harness: EngineHarness) -> None:
    prompts = harness.add_prompts(8)
    async with harness.engine(small_cache(harness, slots=3)) as engine:
        engine.pin([prompts[0].digest])
        await harness.predict(engine, [picture(0)], prompts[:1])
        for prompt in prompts[1:]:
            await harness.predict(engine, [picture(0)], [prompt])
        await harness.predict(engine, [picture(0)], prompts[:1])

    assert harness.reads.count(prompts[0].digest) == 1


async def test_prompts_of_different_widths_share_the_slots(harness: EngineHarness) -> None:
    kinds: list[tuple[int, Variant]] = [(1, "deep"), (5, "deep"), (9, "deep-shared"), (3, "shallow"), (64, "deep")]
    prompts = [
        harness.add(small_prompt(harness.backbone, variant, seed=memory, memory=memory)) for memory, variant in kinds
    ]
    async with harness.engine() as engine:
        for count in (2, 3, 5):
            await harness.check(engine, [picture(count)], prompts[:count])


@pytest.mark.parametrize(("variant", "memory"), [("deep", 5), ("deep-shared", 64), ("shallow", 3), ("head-only", 3)])
def test_no_prompt_exceeds_its_estimated_size(harness: EngineHarness, variant: Variant, memory: int) -> None:
    prompt = harness.add(small_prompt(harness.backbone, variant, memory=memory))
    tensors = harness.prompts[str(prompt.id)].tensors

    ready = precompute(harness.backbone, tensors)

    numbers = (ready.token, ready.keys_values, ready.head_weight, ready.head_bias, tensors.prototypes)
    taken = sum(tensor.nbytes for tensor in numbers if tensor is not None)
    assert taken <= max_bytes(harness, prompt)


async def test_prompts_that_exceed_the_load_budget_are_loaded_in_several_passes(harness: EngineHarness) -> None:
    prompts = [harness.add(small_prompt(harness.backbone, "deep-shared", seed=seed, memory=64)) for seed in range(8)]
    each = max_bytes(harness, prompts[0])
    assert 8 * prompts[0].size_bytes < 3 * each  # as stored, all of them would fit
    async with harness.engine(EngineSettings(load_bytes=3 * each, decode_threads=1)) as engine:
        predictions = await harness.predict(engine, [picture(0)], prompts)
        assert engine.stats().pictures == 3

        await harness.predict(engine, [picture(0)], prompts)
        assert engine.stats().pictures == 4  # cached prompts need no load budget

    assert_same(predictions, harness.expect([picture(0)], prompts))
