"""A prompt cache that several batches use at once: none takes another's slot, and evicted prompts leave nothing."""

import random
import threading
import time

import torch

from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import (
    cached,
    from_source,
    has_own_numbers,
    is_cleared,
    load_wide,
    new_cache,
    request,
    use,
)


def test_an_evicted_prompt_that_two_batches_use_leaves_after_the_last(
    cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    first = cache.place([request(*loaded[:2])])
    second = cache.place([([loaded[1].digest], {})])
    evicted = first.prompts[loaded[1].digest]
    assert second.prompts[loaded[1].digest] is evicted
    before = first.pool.keys[:, evicted.slot_index].clone()

    cache.evict(from_source(1))
    cache.release(first)

    assert torch.equal(first.pool.keys[:, evicted.slot_index], before)
    cache.release(second)
    assert is_cleared(cache, evicted)
    assert cached(cache, loaded) == [0]


def test_no_batch_takes_a_slot_that_another_batch_uses(cache: PromptCache, loaded: list[LoadedPrompt]) -> None:
    first = cache.place([request(*loaded[:2])])

    second = cache.place([request(*loaded[2:4]), request(loaded[4]), request(loaded[0], loaded[4])])

    assert (second.placed, second.deferred, second.missing) == ([1, 2], [0], [])  # a shared prompt takes one slot
    prompts = first.prompts | second.prompts
    assert len({prompt.slot_index for prompt in prompts.values()}) == len(prompts) == 3
    cache.release(first)
    cache.release(second)
    assert use(cache, *loaded[2:4]).placed == [0]


def test_a_prompt_that_is_evicted_and_loaded_again_meanwhile_gets_another_slot(
    cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    first = cache.place([request(loaded[0])])
    cache.evict(from_source(0))

    second = cache.place([request(loaded[0])])

    old, new = (placement.prompts[loaded[0].digest] for placement in (first, second))
    assert old.slot_index != new.slot_index
    cache.release(first)
    assert is_cleared(cache, old)
    assert second.pool.tokens[new.slot_index].any()
    cache.release(second)
    assert cached(cache, loaded) == [0]


def test_slots_are_not_widened_while_a_batch_reads_them(harness: EngineHarness, loaded: list[LoadedPrompt]) -> None:
    cache = new_cache(harness, slots=6)
    first = cache.place([request(loaded[0])])
    wide = load_wide(harness)

    second = cache.place([request(wide), request(loaded[1])])

    assert (second.placed, second.deferred) == ([], [0, 1])
    cache.release(second)
    cache.release(first)
    assert use(cache, wide).placed == [0]


def test_slots_are_not_narrowed_while_a_batch_reads_them(harness: EngineHarness, loaded: list[LoadedPrompt]) -> None:
    cache = new_cache(harness, slots=6)
    wide = load_wide(harness)
    first = cache.place([request(wide)])
    cache.evict(from_source(50))

    second = cache.place([request(loaded[0])])

    assert (second.placed, second.slots_too_wide) == ([0], False)  # the wide one is still read
    assert has_own_numbers(first, wide)
    cache.release(first)
    third = cache.place([request(loaded[1])])
    assert (third.placed, third.slots_too_wide) == ([0], True)
    cache.release(second)
    cache.release(third)
    use(cache, loaded[2])
    assert cache.capacity == 6
    assert cached(cache, loaded) == [0, 1, 2]


def test_concurrent_batches_each_read_their_own_numbers(harness: EngineHarness, loaded: list[LoadedPrompt]) -> None:
    cache = new_cache(harness, slots=4)
    wrong: list[str] = []
    is_over = threading.Event()

    def compute(seed: int) -> None:
        choice = random.Random(seed)
        for _ in range(300):
            chosen = choice.sample(loaded, choice.randint(1, 2))
            placement = cache.place([request(*chosen)])
            time.sleep(0)
            if placement.placed:
                wrong.extend(prompt.digest for prompt in chosen if not has_own_numbers(placement, prompt))
            cache.release(placement)

    def evict() -> None:
        choice = random.Random(0)
        while not is_over.wait(0.001):
            cache.evict(from_source(choice.randrange(6)))

    workers = [threading.Thread(target=compute, args=(seed,)) for seed in range(3)]
    evicting = threading.Thread(target=evict)
    for thread in (evicting, *workers):
        thread.start()
    for worker in workers:
        worker.join()
    is_over.set()
    evicting.join()

    assert wrong == []
    assert use(cache, *loaded[:4]).placed == [0]  # no slot was lost
