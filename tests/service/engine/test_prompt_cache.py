"""The prompt cache: what is placed and evicted, also by several batches at once, and that nothing evicted is left."""

import random
import threading
import time

import pytest
import torch

from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import (
    cached,
    from_source,
    has_own_numbers,
    is_cleared,
    is_intact,
    load,
    load_wide,
    new_cache,
    owner_of,
    place_and_release,
    request,
    use,
)


def test_the_least_recently_used_prompt_is_evicted(cache: PromptCache, loaded: list[LoadedPrompt]) -> None:
    use(cache, *loaded[:3])
    cache.missing([owner_of(loaded[0])])  # a lookup counts as a use

    use(cache, loaded[3])

    assert cached(cache, loaded) == [0, 2, 3]


def test_a_prompt_of_the_batch_is_not_evicted_for_another_of_it(cache: PromptCache, loaded: list[LoadedPrompt]) -> None:
    use(cache, *loaded[:3])

    placement = place_and_release(cache, *(request(loaded[n]) for n in (0, 3, 4, 5)))

    assert (placement.placed, placement.deferred) == ([0, 1, 2], [3])
    assert len({prompt.slot_index for prompt in placement.prompts.values()}) == 3
    assert cached(cache, loaded) == [0, 3, 4]


def test_a_request_for_an_evicted_prompt_or_for_more_prompts_than_slots_is_reported_as_missing(
    cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    placement = use(cache, *loaded[:4])
    assert (placement.placed, placement.missing, cache.count) == ([], [0], 0)

    use(cache, loaded[0])
    placement = place_and_release(cache, ([loaded[0].digest], {}), ([loaded[1].digest], {}))
    assert (placement.placed, placement.missing) == ([0], [1])


def test_the_slot_of_an_evicted_prompt_is_cleared_at_once(cache: PromptCache, loaded: list[LoadedPrompt]) -> None:
    evicted = use(cache, *loaded[:2]).prompts[loaded[1].digest]
    assert not is_cleared(cache, evicted)

    count = cache.evict(from_source(1))

    assert count == 1
    assert cached(cache, loaded) == [0]
    assert is_cleared(cache, evicted)


def test_a_prompt_evicted_while_it_was_loaded_is_used_once_and_dropped(
    cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    loaded[1].keep = False

    placement = use(cache, *loaded[:2])

    assert placement.placed == [0]
    assert cached(cache, loaded) == [0]
    assert is_cleared(cache, placement.prompts[loaded[1].digest])


def test_either_owner_of_the_same_bytes_evicts_them(
    harness: EngineHarness, cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    use(cache, loaded[0])
    twin = load(harness, harness.add(harness.prompts[str(owner_of(loaded[0]).id)], source=77))
    assert cache.missing([owner_of(twin)]) == [owner_of(twin)]  # so that it is loaded under its own id
    use(cache, twin)

    assert cache.evict(from_source(77)) == 1

    assert cached(cache, [loaded[0], twin]) == []


def test_a_failed_batch_drops_all_prompts_that_it_used(cache: PromptCache, loaded: list[LoadedPrompt]) -> None:
    use(cache, loaded[0])

    cache.release(cache.place([request(*loaded[1:3])]), failed=True)

    assert cached(cache, loaded) == [0]


def test_pinned_prompts_leave_last(cache: PromptCache, loaded: list[LoadedPrompt]) -> None:
    cache.pin([loaded[0].digest])
    use(cache, *loaded[:3])

    use(cache, *loaded[3:5])

    assert cached(cache, loaded) == [0, 3, 4]
    use(cache, *loaded[1:4])
    assert cached(cache, loaded) == [1, 2, 3]


def test_a_wider_prompt_makes_all_slots_wider_and_fewer(harness: EngineHarness, loaded: list[LoadedPrompt]) -> None:
    cache = new_cache(harness, slots=6)
    use(cache, *loaded)

    placement = place_and_release(cache, request(load_wide(harness)), ([loaded[0].digest], {}))

    assert (placement.placed, placement.missing) == ([0], [1])
    assert placement.pool.keys.shape[3] == 12
    assert cache.capacity == 2
    assert cached(cache, loaded) == [5]  # the most recently used was moved
    assert is_intact(cache, loaded[5])


def test_slots_are_narrow_again_after_the_wider_prompt_has_left(
    harness: EngineHarness, loaded: list[LoadedPrompt]
) -> None:
    cache = new_cache(harness, slots=6)
    use(cache, load_wide(harness))
    use(cache, loaded[0])
    assert cache.capacity == 2

    cache.evict(from_source(50))
    use(cache, *loaded[1:])

    assert cache.capacity == 6
    assert cached(cache, loaded) == [0, 1, 2, 3, 4, 5]
    assert all(is_intact(cache, prompt) for prompt in loaded)


def test_heads_count_towards_the_budget(harness: EngineHarness) -> None:
    backbone, labels = harness.backbone, tuple(f"label {n:04}" for n in range(300))
    artifacts = [small_prompt(backbone, "head-only", seed=seed, labels=labels) for seed in range(6)]
    heads = [load(harness, harness.add(artifact)) for artifact in artifacts]
    each = 300 * 4 * (backbone.width + 1) + 4 * 4 * backbone.width
    cache = PromptCache(backbone, 2 * 4 * each)

    for head in heads:
        use(cache, head)

    assert cached(cache, heads) == [2, 3, 4, 5]
    assert cache.size_bytes == 4 * each


def test_a_prompt_that_is_larger_than_the_budget_is_placed_alone(
    harness: EngineHarness, loaded: list[LoadedPrompt]
) -> None:
    cache = PromptCache(harness.backbone, 1)

    placement = place_and_release(cache, request(loaded[0]), request(loaded[1]))

    assert (placement.placed, placement.deferred) == ([0], [1])
    assert use(cache, loaded[1]).placed == [0]
    assert cached(cache, loaded) == [1]


def fail(*_: object) -> None:
    raise RuntimeError("the device is gone")


def test_a_prompt_that_could_not_be_copied_is_not_cached(
    cache: PromptCache, loaded: list[LoadedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(cache, loaded[0])

    with monkeypatch.context() as broken:
        broken.setattr("alacarte.prompting.attention.prompt_slots.PromptSlots.put", fail)
        with pytest.raises(RuntimeError, match="gone"):
            cache.place([request(loaded[0], loaded[1])])

    assert cached(cache, loaded) == []
    assert use(cache, *loaded[:3]).placed == [0]


def test_a_slot_that_cannot_be_cleared_does_not_keep_others_from_being_freed(
    cache: PromptCache, loaded: list[LoadedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    placement = cache.place([request(*loaded[:3])])

    with monkeypatch.context() as broken:
        broken.setattr("alacarte.prompting.attention.prompt_slots.PromptSlots.clear", fail)
        with pytest.raises(RuntimeError, match="gone"):
            cache.release(placement, failed=True)

    assert cached(cache, loaded) == []
    assert use(cache, *loaded[3:6]).placed == [0]
    assert is_intact(cache, loaded[3])


def test_an_evicted_prompt_stays_readable_until_the_last_batch_that_uses_it_ends(
    cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    first = cache.place([request(*loaded[:2])])
    second = cache.place([([loaded[1].digest], {})])
    evicted = first.prompts[loaded[1].digest]
    assert second.prompts[loaded[1].digest] is evicted
    before = first.pool.keys[:, evicted.slot_index].clone()

    assert cache.evict(from_source(1)) == 1
    assert cached(cache, loaded) == [0]
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
