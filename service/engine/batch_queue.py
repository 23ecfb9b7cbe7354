"""The batch queue: it decides which jobs are computed together, by which compute worker, and when."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.errors import Overloaded
from service.engine.job import Job, is_pending

# Batches that use all threads always run in this worker. OpenMP keeps helper threads for every thread that ever
# computed with several; with more helpers than cores, all of them would sleep between any two steps.
SINGLE_WORKER = 0


@dataclass(frozen=True)
class Batch:
    """Jobs that one worker computes in one pass, and whether it has the device to itself."""

    jobs: Sequence[Job]
    is_alone: bool


class BatchQueue:
    """Jobs come from one event loop; compute workers, each a thread, take them in batches."""

    def __init__(self, workers: int, max_pictures: int, max_pairs: int) -> None:
        self._workers = workers
        self._max_pictures = max_pictures  # of one batch
        self._max_pairs = max_pairs
        self._waiting: deque[Job] = deque()
        self._lock = threading.Lock()
        self._wakeups = [threading.Condition(self._lock) for _ in range(workers)]  # one each: the others sleep on
        self._busy_workers = 0
        self._is_alone = False  # the running batch has the device to itself
        self._next_is_alone = False  # a job did not fit beside other batches, and needs the device to itself
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, job: Job) -> None:
        """Queue a job. It is taken unless it is cancelled or past its deadline by then."""
        with self._lock:
            if self._is_closed:
                raise Overloaded("this replica is stopping; retry in a moment", retry_after=1)
            self._waiting.append(job)
            self._wake()

    def take(self, worker: int) -> Batch | None:
        """Wait for the next batch of this worker; None when the queue is closed. Call `finish` after each batch."""
        with self._lock:
            while True:
                if self._may_start(worker):
                    is_alone = self._needs_all_threads()
                    jobs = self._form_batch()
                    if jobs:
                        return self._start(jobs, is_alone)
                    self._wake()  # nothing was pending: others that waited for this batch must look again
                elif self._is_over():
                    return None
                else:
                    self._wakeups[worker].wait()

    def finish(self) -> None:
        """End a batch that was taken."""
        with self._lock:
            self._busy_workers -= 1
            self._is_alone = False
            self._wake()

    def requeue(self, jobs: Sequence[Job]) -> None:
        """Put jobs back at the head of the queue."""
        with self._lock:
            self._waiting.extendleft(reversed(jobs))
            self._wake()

    def run_next_alone(self) -> None:
        """Start the next batch only when all workers are idle, and let no other run beside it."""
        with self._lock:
            self._next_is_alone = True

    def close(self) -> None:
        """Refuse further jobs; those in the queue are still taken."""
        with self._lock:
            self._is_closed = True
            self._wake()

    def drain(self) -> list[Job]:
        """Remove and return all waiting jobs."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._wake()
            return waiting

    def _wake(self) -> None:
        """Wake the workers that can start, and no others: a spurious wakeup takes time from those at work."""
        for worker, wakeup in enumerate(self._wakeups):
            if self._may_start(worker) or self._is_over():
                wakeup.notify_all()

    def _is_over(self) -> bool:
        return self._is_closed and not self._waiting

    def _may_start(self, worker: int) -> bool:
        if not self._waiting or self._is_alone or (self._next_is_alone and self._busy_workers):
            return False
        # After closing, the single worker may have ended already.
        return worker == SINGLE_WORKER or self._is_closed or not self._needs_all_threads()

    def _needs_all_threads(self) -> bool:
        """Return whether the next batch is computed by all threads, with no other worker running."""
        return not self._busy_workers and (len(self._waiting) == 1 or self._next_is_alone)

    def _start(self, jobs: Sequence[Job], is_alone: bool) -> Batch:
        self._is_alone = is_alone
        self._next_is_alone = False
        self._busy_workers += 1
        return Batch(jobs, is_alone)

    def _form_batch(self) -> list[Job]:
        """Take the oldest pending job and those that fit beside it, leaving idle workers their share.

        The jobs that stay keep their order.
        """
        idle = self._workers - self._busy_workers
        max_jobs = min(self._max_pictures, -(-len(self._waiting) // idle))
        batch: list[Job] = []
        rest: deque[Job] = deque()
        pairs = 0
        while self._waiting and len(batch) < max_jobs:
            job = self._waiting.popleft()
            if not is_pending(job):
                continue
            fits = pairs + len(job.digests) <= self._max_pairs and job.cache is (batch or [job])[0].cache
            if batch and not fits:
                rest.append(job)
                continue
            batch.append(job)
            pairs += len(job.digests)
        self._waiting.extendleft(reversed(rest))
        return batch
