"""The slots of a device that several batches use at once: none takes from another, nothing stays of who has gone."""

import random
import threading
import time
from functools import partial

import torch

from service.engine.prompt_loader import LoadedPrompt
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import (
    ask,
    here,
    is_cleared,
    is_of,
    loaded,
    ready_numbers,
    residence_of,
    use,
)


def test_what_two_batches_use_leaves_after_the_last_of_them(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    one, pool = residence.seat([ask(*cast[:2])])
    other, _ = residence.seat([([cast[1].digest], {})])
    gone = one.residents[cast[1].digest]
    assert other.residents[cast[1].digest] is gone
    before = pool.keys[:, gone.seat.slot].clone()

    residence.evict(lambda prompt: prompt.source_id.int == 1)
    residence.release(one)

    assert torch.equal(pool.keys[:, gone.seat.slot], before)
    residence.release(other)
    assert is_cleared(residence, gone)
    assert here(residence, cast) == [0]


def test_nobody_takes_the_slot_of_who_is_in_another_batch(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=3)
    one, _ = residence.seat([ask(*cast[:2])])

    other, _ = residence.seat([ask(*cast[2:4]), ask(cast[4]), ask(cast[0], cast[4])])

    assert (other.seated, other.later, other.missed) == ([1, 2], [0], [])  # what both use takes one slot
    residents = one.residents | other.residents
    assert len({resident.seat.slot for resident in residents.values()}) == len(residents) == 3
    residence.release(one)
    residence.release(other)
    assert use(residence, *cast[2:4]).seated == [0]


def test_who_is_evicted_and_comes_again_meanwhile_gets_another_slot(
    harness: EngineHarness, cast: list[LoadedPrompt]
) -> None:
    residence = residence_of(harness, slots=3)
    one, _ = residence.seat([ask(cast[0])])
    residence.evict(lambda prompt: prompt.source_id.int == 0)

    other, pool = residence.seat([ask(cast[0])])

    old, new = (seating.residents[cast[0].digest] for seating in (one, other))
    assert old.seat.slot != new.seat.slot
    residence.release(one)
    assert is_cleared(residence, old)
    assert pool.tokens[new.seat.slot].any()
    residence.release(other)
    assert here(residence, cast) == [0]


def test_slots_become_no_wider_under_a_batch_that_reads_them(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=6)
    one, _ = residence.seat([ask(cast[0])])
    wide = loaded(harness, harness.add(small_prompt(harness.backbone, seed=50, memory=12)))

    other, _ = residence.seat([ask(wide), ask(cast[1])])

    assert (other.seated, other.later) == ([], [0, 1])
    residence.release(other)
    residence.release(one)
    assert use(residence, wide).seated == [0]


def test_slots_become_no_narrower_under_a_batch_that_reads_them(
    harness: EngineHarness, cast: list[LoadedPrompt]
) -> None:
    residence = residence_of(harness, slots=6)
    wide = loaded(harness, harness.add(small_prompt(harness.backbone, seed=50, memory=12), source=50))
    one, pool = residence.seat([ask(wide)])
    residence.evict(lambda prompt: prompt.source_id.int == 50)

    other, _ = residence.seat([ask(cast[0])])

    assert (other.seated, other.is_cramped) == ([0], False)  # the wide one is still read
    assert torch.equal(pool.keys[:, one.residents[wide.digest].seat.slot], ready_numbers(wide)[:, 0])
    residence.release(one)
    third, _ = residence.seat([ask(cast[1])])
    assert (third.seated, third.is_cramped) == ([0], True)
    residence.release(other)
    residence.release(third)
    use(residence, cast[2])
    assert residence.capacity == 6
    assert here(residence, cast) == [0, 1, 2]


def test_many_batches_at_once_each_find_their_own_numbers(harness: EngineHarness, cast: list[LoadedPrompt]) -> None:
    residence = residence_of(harness, slots=4)
    faults: list[str] = []
    is_over = threading.Event()

    def compute(seed: int) -> None:
        choose = random.Random(seed)
        for _ in range(300):
            chosen = choose.sample(cast, choose.randint(1, 2))
            seating, pool = residence.seat([ask(*chosen)])
            time.sleep(0)
            for prompt in chosen if seating.seated else ():
                slot = seating.residents[prompt.digest].seat.slot
                found = torch.stack([pool.keys[:, slot], pool.values[:, slot]], dim=1)
                if not torch.equal(found, ready_numbers(prompt)):
                    faults.append(prompt.digest)
            residence.release(seating)

    def evict() -> None:
        choose = random.Random(0)
        while not is_over.wait(0.001):
            residence.evict(partial(is_of, choose.randrange(6)))

    lanes = [threading.Thread(target=compute, args=(seed,)) for seed in range(3)]
    evicting = threading.Thread(target=evict)
    for thread in (evicting, *lanes):
        thread.start()
    for lane in lanes:
        lane.join()
    is_over.set()
    evicting.join()

    assert faults == []
    assert use(residence, *cast[:4]).seated == [0]  # no slot was lost
