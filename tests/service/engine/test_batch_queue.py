"""The line before the device: who is computed with whom, who waits for whom, and that nobody is forgotten."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch

from service.engine.batch_queue import SINGLE_WORKER, Batch, BatchQueue
from service.engine.errors import Overloaded
from service.engine.job import Job
from service.engine.prompt_cache import PromptCache

OTHER = SINGLE_WORKER + 1


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class People:
    """Who joins a line: works of one residence, or of another, that ask for so many prompts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.home, self.away = (cast(PromptCache, object()) for _ in range(2))

    def work(self, digests: int = 1, residence: PromptCache | None = None, seconds: float = 60) -> Job:
        names = [str(number) for number in range(digests)]
        now = time.monotonic()
        said: asyncio.Future[Any] = self._loop.create_future()
        return Job(residence or self.home, torch.empty(0), names, {}, now, now + seconds, said)


@pytest.fixture
def people(loop: asyncio.AbstractEventLoop) -> People:
    return People(loop)


def filled(people: People, line: BatchQueue, count: int) -> list[Job]:
    works = [people.work() for _ in range(count)]
    for work in works:
        line.join(work)
    return works


def taken(line: BatchQueue, lane: int) -> Batch:
    batch = line.take(lane)
    assert batch is not None
    return batch


class Waiting:
    """A lane that waits for its batch, in a thread."""

    def __init__(self, line: BatchQueue, lane: int) -> None:
        self.batch: Batch | None = None
        self._thread = threading.Thread(target=self._take, args=(line, lane), daemon=True)
        self._thread.start()

    def _take(self, line: BatchQueue, lane: int) -> None:
        self.batch = line.take(lane)

    def has_ended(self, within_s: float = 30) -> bool:
        self._thread.join(within_s)
        return not self._thread.is_alive()


def waits(line: BatchQueue, lane: int) -> Waiting:
    """A lane that has been given time to take what it must not."""
    waiting = Waiting(line, lane)
    assert not waiting.has_ended(within_s=0.1)
    return waiting


def test_idle_lanes_share_what_waits_and_a_single_one_takes_what_it_may(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=4, max_pairs=100)
    works = filled(people, line, 6)

    assert list(taken(line, 0).works) == works[:3]
    assert list(taken(line, 1).works) == works[3:]
    works = filled(people, line, 6)
    line.end()
    assert list(taken(line, 1).works) == works[:4]


def test_a_lone_picture_is_the_soloists_and_nobody_begins_beside_it(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=4, max_pairs=100)
    other = waits(line, OTHER)
    (lone,) = filled(people, line, 1)
    assert not other.has_ended(within_s=0.1)

    batch = taken(line, SINGLE_WORKER)
    assert (list(batch.works), batch.is_alone) == ([lone], True)
    late = filled(people, line, 3)
    assert not other.has_ended(within_s=0.1)

    line.end()
    assert other.has_ended()
    assert other.batch == Batch(late[:2], is_alone=False)


def test_a_single_picture_beside_a_batch_is_not_alone(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=4, max_pairs=100)
    filled(people, line, 4)
    taken(line, SINGLE_WORKER)
    taken(line, OTHER)
    line.end()
    (single,) = filled(people, line, 1)

    assert taken(line, OTHER) == Batch([single], is_alone=False)


def test_a_lane_that_waits_ends_when_nothing_is_left_for_it_though_nobody_ends_a_batch(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=4, max_pairs=100)
    filled(people, line, 1)
    taken(line, SINGLE_WORKER)  # alone, and for ever
    other = waits(line, OTHER)
    filled(people, line, 1)
    line.close()
    assert not other.has_ended(within_s=0.1)

    line.clear()

    assert other.has_ended()
    assert other.batch is None


def test_who_found_no_room_comes_first_alone_when_all_others_are_done(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=4, max_pairs=100)
    works = filled(people, line, 6)
    first, second = taken(line, SINGLE_WORKER), taken(line, OTHER)
    late = filled(people, line, 1)
    line.make_room()
    line.put_back(second.works)
    line.end()  # of the second

    other = waits(line, OTHER)
    line.end()  # of the first
    assert not other.has_ended(within_s=0.1)  # it is the soloist's
    assert list(first.works) == works[:3]
    assert taken(line, SINGLE_WORKER) == Batch([*works[3:]][:2], is_alone=True)
    line.end()
    assert other.has_ended()
    assert other.batch is not None
    assert [*other.batch.works] == [works[5]]
    assert taken(line, SINGLE_WORKER).works == late


def test_who_is_put_back_for_others_of_the_batch_is_next(people: People) -> None:
    line = BatchQueue(lanes=1, max_pictures=4, max_pairs=100)
    works = filled(people, line, 6)
    batch = taken(line, SINGLE_WORKER)

    line.put_back(batch.works[2:])
    line.end()

    assert list(taken(line, SINGLE_WORKER).works) == works[2:]


def test_a_batch_has_no_more_pairs_than_it_may_and_one_residence(people: People) -> None:
    line = BatchQueue(lanes=1, max_pictures=9, max_pairs=10)
    large, huge, elsewhere, small = (
        people.work(6),
        people.work(20),
        people.work(1, people.away),
        people.work(4),
    )
    for work in (large, huge, elsewhere, small):
        line.join(work)

    for expected in ([large, small], [huge], [elsewhere]):
        assert list(taken(line, SINGLE_WORKER).works) == expected
        line.end()


def test_who_is_not_wanted_any_more_is_not_taken(people: People, loop: asyncio.AbstractEventLoop) -> None:
    line = BatchQueue(lanes=1, max_pictures=9, max_pairs=10)
    gone, late, wanted = people.work(), people.work(seconds=0), people.work()
    for work in (gone, late, wanted):
        line.join(work)
    gone.said.cancel()

    assert list(taken(line, SINGLE_WORKER).works) == [wanted]
    loop.run_until_complete(asyncio.sleep(0))
    assert type(late.said.exception()).__name__ == "DeadlinePassed"


def test_a_closed_line_is_emptied_and_takes_nobody_in(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=2, max_pairs=10)
    works = filled(people, line, 3)
    line.close()

    with pytest.raises(Overloaded):
        line.join(people.work())
    assert list(taken(line, SINGLE_WORKER).works) == works[:2]
    assert list(taken(line, OTHER).works) == works[2:]
    assert line.take(SINGLE_WORKER) is None
    assert line.take(OTHER) is None


def test_a_lane_that_waits_for_the_soloist_ends_when_he_finds_nobody_who_is_wanted(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=2, max_pairs=10)
    (gone,) = filled(people, line, 1)
    gone.said.cancel()
    other = waits(line, OTHER)
    line.close()

    assert line.take(SINGLE_WORKER) is None
    assert other.has_ended()
    assert other.batch is None


def test_who_is_put_back_after_the_soloist_has_gone_is_taken_all_the_same(people: People) -> None:
    line = BatchQueue(lanes=2, max_pictures=2, max_pairs=10)
    filled(people, line, 2)
    taken(line, SINGLE_WORKER)
    batch = taken(line, OTHER)
    line.end()
    line.close()
    assert line.take(SINGLE_WORKER) is None

    line.make_room()
    line.put_back(batch.works)
    line.end()

    again = Waiting(line, OTHER)
    assert again.has_ended()
    assert again.batch is not None
    assert again.batch.works == batch.works


def test_lanes_take_everyone_exactly_once(people: People) -> None:
    line = BatchQueue(lanes=3, max_pictures=4, max_pairs=100)
    seen: list[Job] = []
    begun = {SINGLE_WORKER: 0}
    faults: list[str] = []

    def compute(lane: int) -> None:
        put_back = 0
        while (batch := line.take(lane)) is not None:
            begun[lane] = 1
            if batch.is_alone and (lane != SINGLE_WORKER or sum(begun.values()) != 1):
                faults.append(f"lane {lane} was not alone")
            time.sleep(0.0003)
            if put_back < 20 and not batch.is_alone:
                put_back += 1
                line.make_room()
                line.put_back(batch.works)
            else:
                seen.extend(batch.works)
            begun[lane] = 0
            line.end()

    lanes = [threading.Thread(target=compute, args=(lane,)) for lane in range(3)]
    for lane in lanes:
        lane.start()
    works = []
    for number in range(400):
        works += filled(people, line, 1)
        time.sleep(0.002 if number % 40 == 0 else 0)
    line.close()
    for lane in lanes:
        lane.join(30)

    assert faults == []
    assert sorted(map(id, seen)) == sorted(map(id, works))
