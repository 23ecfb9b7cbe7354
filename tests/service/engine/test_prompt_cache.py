"""The slots of a device: who is seated, who leaves for whom, and that nothing is left of who has gone."""

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import (
    ask,
    here,
    is_cleared,
    loaded,
    numbers_of,
    ready_numbers,
    residence_of,
    usable_of,
    use,
)


def test_who_was_used_longest_ago_leaves_for_who_comes(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    use(residence, *cast[:3])
    residence.missing([usable_of(cast[0])])  # to look for one is to use it

    use(residence, cast[3])

    assert here(residence, cast) == [0, 2, 3]


def test_nobody_who_is_in_the_batch_leaves_for_another_in_it(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    use(residence, *cast[:3])

    seating, _ = residence.seat([ask(cast[0]), ask(cast[3]), ask(cast[4]), ask(cast[5])])
    residence.release(seating)

    assert seating.seated == [0, 1, 2]
    assert seating.later == [3]
    slots = [resident.seat.slot for resident in seating.residents.values()]
    assert len(set(slots)) == 3
    assert here(residence, cast) == [0, 3, 4]


def test_who_asks_for_a_prompt_that_has_left_is_told_so(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    use(residence, cast[0])

    seating, _ = residence.seat([([cast[0].digest], {}), ([cast[1].digest], {})])
    residence.release(seating)

    assert (seating.seated, seating.missed) == ([0], [1])


def test_who_asks_for_more_than_there_are_slots_is_told_to_ask_for_less(
    harness: EngineHarness, cast: list[LoadedPrompt]
) -> None:
    residence = residence_of(harness, slots=3)

    seating = use(residence, *cast[:4])

    assert (seating.seated, seating.missed) == ([], [0])
    assert residence.count == 0


def test_the_slot_of_who_was_evicted_is_cleared_at_once(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    gone = use(residence, *cast[:2]).residents[cast[1].digest]
    assert not is_cleared(residence, gone)

    count = residence.evict(lambda prompt: prompt.source_id.int == 1)

    assert count == 1
    assert here(residence, cast) == [0]
    assert is_cleared(residence, gone)


def test_who_is_evicted_while_in_use_stays_readable_until_the_batch_ends(
    harness: EngineHarness, cast: list[LoadedPrompt]
) -> None:
    residence = residence_of(harness, slots=3)
    seating, pool = residence.seat([ask(*cast[:2])])
    gone = seating.residents[cast[1].digest]
    before = pool.keys[:, gone.seat.slot].clone()

    assert residence.evict(lambda prompt: prompt.source_id.int == 1) == 1

    assert here(residence, cast) == [0]
    assert torch.equal(pool.keys[:, gone.seat.slot], before)
    residence.release(seating)
    assert is_cleared(residence, gone)


def test_who_was_evicted_on_the_way_is_used_once_and_leaves(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    cast[1].stays = False

    seating = use(residence, *cast[:2])

    assert seating.seated == [0]
    assert here(residence, cast) == [0]
    assert is_cleared(residence, seating.residents[cast[1].digest])


def test_either_owner_of_the_same_bytes_evicts_them(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    use(residence, cast[0])
    twin = loaded(harness, harness.add(harness.prompts[str(usable_of(cast[0]).id)], source=77))
    assert residence.missing([usable_of(twin)]) == [usable_of(twin)]  # so that it is fetched in its own name
    use(residence, twin)

    assert residence.evict(lambda prompt: prompt.source_id.int == 77) == 1

    assert here(residence, [cast[0], twin]) == []


def test_after_a_failed_batch_nothing_that_it_used_is_trusted(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    use(residence, cast[0])

    seating, _ = residence.seat([ask(*cast[1:3])])
    residence.release(seating, failed=True)

    assert here(residence, cast) == [0]


def test_the_pinned_leave_last(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    residence.pin([cast[0].digest])
    use(residence, *cast[:3])

    use(residence, *cast[3:5])

    assert here(residence, cast) == [0, 3, 4]
    use(residence, *cast[1:4])
    assert here(residence, cast) == [1, 2, 3]


def test_a_wider_prompt_makes_all_slots_wider_and_fewer(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=6)
    use(residence, *cast)
    wide = loaded(harness, harness.add(small_prompt(harness.backbone, seed=50, memory=12)))

    seating, pool = residence.seat([ask(wide), ([cast[0].digest], {})])
    residence.release(seating)

    assert (seating.seated, seating.missed) == ([0], [1])
    assert pool.keys.shape[3] == 12
    assert residence.capacity == 2
    assert here(residence, cast) == [5]  # who was used last has moved along
    assert torch.equal(numbers_of(residence, cast[5]), ready_numbers(cast[5]))


def test_slots_are_narrow_again_when_the_wider_prompt_has_left(
    harness: EngineHarness, cast: list[LoadedPrompt]
) -> None:
    residence = residence_of(harness, slots=6)
    wide = loaded(harness, harness.add(small_prompt(harness.backbone, seed=50, memory=12), source=50))
    use(residence, wide)
    use(residence, cast[0])
    assert residence.capacity == 2

    residence.evict(lambda prompt: prompt.source_id.int == 50)
    use(residence, *cast[1:])

    assert residence.capacity == 6
    assert here(residence, cast) == [0, 1, 2, 3, 4, 5]
    assert all(torch.equal(numbers_of(residence, one), ready_numbers(one)) for one in cast)


def test_heads_are_within_the_budget_too(backbone: Backbone) -> None:
    harness = EngineHarness(backbone)
    labels = tuple(f"label {n:04}" for n in range(300))
    heads = [
        loaded(harness, harness.add(small_prompt(backbone, "head-only", seed=seed, labels=labels))) for seed in range(6)
    ]
    each = 300 * 4 * (backbone.width + 1) + 4 * 4 * backbone.width
    residence = PromptCache(backbone, 2 * 4 * each)

    for head in heads:
        use(residence, head)

    assert here(residence, heads) == [2, 3, 4, 5]
    assert residence.size_bytes == 4 * each


def test_one_prompt_that_is_larger_than_the_budget_is_seated_alone(
    harness: EngineHarness, cast: list[LoadedPrompt]
) -> None:
    residence = PromptCache(harness.backbone, 1)

    seating, _ = residence.seat([ask(cast[0]), ask(cast[1])])
    residence.release(seating)

    assert (seating.seated, seating.later) == ([0], [1])
    assert use(residence, cast[1]).seated == [0]
    assert here(residence, cast) == [1]


def test_a_prompt_that_could_not_be_copied_is_nobodys(
    harness: EngineHarness, cast: list[LoadedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    residence = residence_of(harness, slots=3)
    use(residence, cast[0])

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as broken:
        broken.setattr("alacarte.prompting.attention.prompt_slots.PromptSlots.put", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            residence.seat([ask(cast[0], cast[1])])

    assert here(residence, cast) == []
    assert use(residence, *cast[:3]).seated == [0]


def test_a_slot_that_cannot_be_cleared_keeps_no_other_from_being_free(
    harness: EngineHarness, cast: list[LoadedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    residence = residence_of(harness, slots=3)
    seating, _ = residence.seat([ask(*cast[:3])])

    def fail(*_: object) -> None:
        raise RuntimeError("the device is gone")

    with monkeypatch.context() as broken:
        broken.setattr("alacarte.prompting.attention.prompt_slots.PromptSlots.clear", fail)
        with pytest.raises(RuntimeError, match="gone"):
            residence.release(seating, failed=True)

    assert here(residence, cast) == []
    assert use(residence, *cast[3:6]).seated == [0]
    assert torch.equal(numbers_of(residence, cast[3]), ready_numbers(cast[3]))
