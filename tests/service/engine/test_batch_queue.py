"""The batch queue: which jobs share a batch, which worker computes it, and that every job is taken once."""

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

OTHER_WORKER = SINGLE_WORKER + 1
CACHE, OTHER_CACHE = (cast(PromptCache, object()) for _ in range(2))


class Jobs:
    """Makes jobs that ask for this many prompts of a cache."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def new(self, digests: int = 1, cache: PromptCache = CACHE, seconds: float = 60) -> Job:
        names = [str(number) for number in range(digests)]
        now = time.monotonic()
        result: asyncio.Future[Any] = self.loop.create_future()
        return Job(cache, torch.empty(0), names, {}, now, now + seconds, result)

    def fill(self, queue: BatchQueue, count: int) -> list[Job]:
        jobs = [self.new() for _ in range(count)]
        for job in jobs:
            queue.put(job)
        return jobs


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    loop = asyncio.new_event_loop()
    yield Jobs(loop)
    loop.close()


@pytest.fixture
def queue() -> BatchQueue:
    return BatchQueue(workers=2, max_pictures=4, max_pairs=100)


def take(queue: BatchQueue, worker: int) -> Batch:
    batch = queue.take(worker)
    assert batch is not None
    return batch


class WaitingWorker:
    """A worker that waits for its batch in a thread."""

    def __init__(self, queue: BatchQueue, worker: int) -> None:
        self._batch: Batch | None = None
        self._thread = threading.Thread(target=self._take, args=(queue, worker), daemon=True)
        self._thread.start()

    def _take(self, queue: BatchQueue, worker: int) -> None:
        self._batch = queue.take(worker)

    def is_waiting(self) -> bool:
        """Return whether the worker still waits, after it has had time to take what it must not."""
        self._thread.join(0.1)
        return self._thread.is_alive()

    def batch(self) -> Batch | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self._batch


def start_waiting(queue: BatchQueue, worker: int) -> WaitingWorker:
    waiting = WaitingWorker(queue, worker)
    assert waiting.is_waiting()
    return waiting


def test_idle_workers_share_the_waiting_jobs_and_a_single_idle_one_takes_its_maximum(
    jobs: Jobs, queue: BatchQueue
) -> None:
    waiting = jobs.fill(queue, 6)

    assert list(take(queue, 0).jobs) == waiting[:3]
    assert list(take(queue, 1).jobs) == waiting[3:]
    waiting = jobs.fill(queue, 6)
    queue.finish()
    assert list(take(queue, 1).jobs) == waiting[:4]


def test_a_lone_picture_is_for_the_single_worker_and_nothing_starts_beside_it(jobs: Jobs, queue: BatchQueue) -> None:
    other = start_waiting(queue, OTHER_WORKER)
    (lone,) = jobs.fill(queue, 1)
    assert other.is_waiting()

    batch = take(queue, SINGLE_WORKER)
    assert (list(batch.jobs), batch.is_alone) == ([lone], True)
    late = jobs.fill(queue, 3)
    assert other.is_waiting()

    queue.finish()
    assert other.batch() == Batch(late[:2], is_alone=False)


def test_a_single_picture_beside_a_batch_is_not_alone(jobs: Jobs, queue: BatchQueue) -> None:
    jobs.fill(queue, 4)
    take(queue, SINGLE_WORKER)
    take(queue, OTHER_WORKER)
    queue.finish()
    (single,) = jobs.fill(queue, 1)

    assert take(queue, OTHER_WORKER) == Batch([single], is_alone=False)


def test_a_waiting_worker_ends_when_the_queue_is_drained_though_no_batch_finishes(
    jobs: Jobs, queue: BatchQueue
) -> None:
    jobs.fill(queue, 1)
    take(queue, SINGLE_WORKER)  # alone, and never finished
    other = start_waiting(queue, OTHER_WORKER)
    jobs.fill(queue, 1)
    queue.close()
    assert other.is_waiting()

    queue.drain()

    assert other.batch() is None


def test_jobs_that_did_not_fit_run_first_and_alone_when_all_workers_are_idle(jobs: Jobs, queue: BatchQueue) -> None:
    waiting = jobs.fill(queue, 6)
    first, second = take(queue, SINGLE_WORKER), take(queue, OTHER_WORKER)
    late = jobs.fill(queue, 1)
    queue.run_next_alone()
    queue.requeue(second.jobs)
    queue.finish()  # the second

    other = start_waiting(queue, OTHER_WORKER)
    queue.finish()  # the first
    assert other.is_waiting()  # the next batch is for the single worker
    assert list(first.jobs) == waiting[:3]
    assert take(queue, SINGLE_WORKER) == Batch(waiting[3:5], is_alone=True)
    queue.finish()
    batch = other.batch()
    assert batch is not None
    assert list(batch.jobs) == [waiting[5]]
    assert take(queue, SINGLE_WORKER).jobs == late


def test_requeued_jobs_are_next(jobs: Jobs) -> None:
    queue = BatchQueue(workers=1, max_pictures=4, max_pairs=100)
    waiting = jobs.fill(queue, 6)
    batch = take(queue, SINGLE_WORKER)

    queue.requeue(batch.jobs[2:])
    queue.finish()

    assert list(take(queue, SINGLE_WORKER).jobs) == waiting[2:]


def test_a_batch_has_at_most_the_maximum_of_pairs_and_one_cache(jobs: Jobs) -> None:
    queue = BatchQueue(workers=1, max_pictures=9, max_pairs=10)
    large, huge, elsewhere, small = jobs.new(6), jobs.new(20), jobs.new(1, OTHER_CACHE), jobs.new(4)
    for job in (large, huge, elsewhere, small):
        queue.put(job)

    for expected in ([large, small], [huge], [elsewhere]):
        assert list(take(queue, SINGLE_WORKER).jobs) == expected
        queue.finish()


def test_cancelled_and_expired_jobs_are_not_taken(jobs: Jobs) -> None:
    queue = BatchQueue(workers=1, max_pictures=9, max_pairs=10)
    cancelled, expired, pending = jobs.new(), jobs.new(seconds=0), jobs.new()
    for job in (cancelled, expired, pending):
        queue.put(job)
    cancelled.result.cancel()

    assert list(take(queue, SINGLE_WORKER).jobs) == [pending]
    jobs.loop.run_until_complete(asyncio.sleep(0))
    assert type(expired.result.exception()).__name__ == "DeadlinePassed"


def test_a_closed_queue_is_emptied_and_accepts_no_job(jobs: Jobs) -> None:
    queue = BatchQueue(workers=2, max_pictures=2, max_pairs=10)
    waiting = jobs.fill(queue, 3)
    queue.close()

    with pytest.raises(Overloaded):
        queue.put(jobs.new())
    assert list(take(queue, SINGLE_WORKER).jobs) == waiting[:2]
    assert list(take(queue, OTHER_WORKER).jobs) == waiting[2:]
    assert queue.take(SINGLE_WORKER) is None
    assert queue.take(OTHER_WORKER) is None


def test_a_worker_that_waits_for_the_single_worker_ends_when_no_job_is_pending(jobs: Jobs, queue: BatchQueue) -> None:
    (cancelled,) = jobs.fill(queue, 1)
    cancelled.result.cancel()
    other = start_waiting(queue, OTHER_WORKER)
    queue.close()

    assert queue.take(SINGLE_WORKER) is None
    assert other.batch() is None


def test_jobs_requeued_after_the_single_worker_has_ended_are_taken_by_another(jobs: Jobs, queue: BatchQueue) -> None:
    jobs.fill(queue, 2)
    take(queue, SINGLE_WORKER)
    batch = take(queue, OTHER_WORKER)
    queue.finish()
    queue.close()
    assert queue.take(SINGLE_WORKER) is None

    queue.run_next_alone()
    queue.requeue(batch.jobs)
    queue.finish()

    again = WaitingWorker(queue, OTHER_WORKER).batch()
    assert again is not None
    assert again.jobs == batch.jobs


def test_workers_take_every_job_exactly_once(jobs: Jobs) -> None:
    queue = BatchQueue(workers=3, max_pictures=4, max_pairs=100)
    computed: list[Job] = []
    busy = {SINGLE_WORKER: 0}
    errors: list[str] = []

    def compute(worker: int) -> None:
        requeued = 0
        while (batch := queue.take(worker)) is not None:
            busy[worker] = 1
            if batch.is_alone and (worker != SINGLE_WORKER or sum(busy.values()) != 1):
                errors.append(f"worker {worker} was not alone")
            time.sleep(0.0003)
            if requeued < 20 and not batch.is_alone:
                requeued += 1
                queue.run_next_alone()
                queue.requeue(batch.jobs)
            else:
                computed.extend(batch.jobs)
            busy[worker] = 0
            queue.finish()

    workers = [threading.Thread(target=compute, args=(worker,)) for worker in range(3)]
    for worker in workers:
        worker.start()
    submitted = []
    for number in range(400):
        submitted += jobs.fill(queue, 1)
        time.sleep(0.002 if number % 40 == 0 else 0)
    queue.close()
    for worker in workers:
        worker.join(30)

    assert errors == []
    assert sorted(map(id, computed)) == sorted(map(id, submitted))
