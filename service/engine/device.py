"""The device: compute workers, each a thread that takes batches from the batch queue and resolves their jobs.

An accelerator has one worker. A CPU has several, which share its cores: threads that compute one product together wait
for each other at its end, hundreds of times a pass, and separate workers never do. A single picture uses all threads.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from alacarte.prompting.attention.logits import batch_logits
from service.engine.batch_queue import Batch, BatchQueue
from service.engine.errors import ComputationFailed, PromptEvicted
from service.engine.job import Job, Outcome, PictureLogits, is_pending, resolve
from service.engine.prompt_cache import BatchPlacement
from service.engine.settings import EngineSettings
from service.engine.stats import BatchStats

log = logging.getLogger(__name__)

MAX_WORKERS = 4  # with more, their Python steps delay each other
MAX_FAILURES = 5  # consecutive failed pictures after which the device itself is considered broken
RECOVERY_SECONDS = 30.0  # after which a broken device may be tried again
_set_threads_lock = threading.Lock()

Observe = Callable[[BatchStats], None]  # called from a compute worker


class Device:
    """Runs compute workers from `start` to `stop`. Jobs come from one event loop."""

    def __init__(self, settings: EngineSettings, observe: Observe) -> None:
        self._threads = settings.compute_threads or torch.get_num_threads()
        count = count_workers(settings, self._threads)
        self._threads_each = self._threads // count
        self._queue = BatchQueue(count, settings.max_batch // count, settings.max_pairs // count)
        self._workers = [
            threading.Thread(target=self._run, args=(n,), name=f"compute_{n}", daemon=True) for n in range(count)
        ]
        self._observe = observe
        self._stats_lock = threading.Lock()
        self.batches = self.pictures = self.pairs = self.failures = 0
        self._consecutive_failures = 0
        self._failed_at = 0.0
        self.seconds_per_picture = 0.05  # moving average of the throughput

    @property
    def ready_pictures(self) -> int:
        """Return the number of jobs in the batch queue."""
        return len(self._queue)

    @property
    def is_healthy(self) -> bool:
        """Return whether the device computes. A broken device counts as healthy after a pause, so that it is tried."""
        has_paused = time.monotonic() > self._failed_at + RECOVERY_SECONDS
        is_alive = all(worker.is_alive() for worker in self._workers)
        return is_alive and (self._consecutive_failures < MAX_FAILURES or has_paused)

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """Compute all submitted jobs, then end the workers."""
        self._queue.close()
        for worker in self._workers:
            worker.join()

    def submit(self, job: Job) -> None:
        """Queue the job. Its result is set unless it is cancelled first."""
        self._queue.put(job)

    def _run(self, worker: int) -> None:
        batch: Batch | None = None
        try:
            while (batch := self._queue.take(worker)) is not None:
                use_threads(self._threads if batch.is_alone else self._threads_each)
                self._run_batch(batch)
                batch = None  # keep no picture or prompt in memory while waiting
                self._queue.finish()
        except BaseException as error:
            log.critical("a compute worker has ended; the device computes nothing any more", exc_info=error)
            self._fail_waiting(batch, error)

    def _fail_waiting(self, batch: Batch | None, error: BaseException) -> None:
        """Close the queue and fail all waiting jobs; other workers finish their current batch."""
        self._queue.close()
        waiting = [*(batch.jobs if batch else ()), *self._queue.drain()]
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so no request is waiting
            resolve([(job, ComputationFailed(error)) for job in waiting])
        if batch is not None:
            self._queue.finish()

    def _run_batch(self, batch: Batch) -> None:
        """Resolve every job of the batch. If the batch fails, run its jobs one by one to isolate the cause."""
        jobs = batch.jobs
        try:
            resolve(self._compute(batch))
        except Exception as error:
            if len(jobs) > 1:
                for job in filter(is_pending, jobs):
                    self._run_batch(replace(batch, jobs=[job]))
                return
            with self._stats_lock:
                self.failures += 1
                self._consecutive_failures += 1
                self._failed_at = time.monotonic()
            log.exception("a picture could not be computed")
            resolve([(jobs[0], ComputationFailed(error))])

    def _compute(self, batch: Batch) -> list[Outcome]:
        started_at = time.monotonic()
        jobs = batch.jobs
        cache = jobs[0].cache
        placement = cache.place([(job.digests, job.loaded) for job in jobs])
        # Sorted by their number of prompts, since equal counts attend in one step.
        placed = sorted((jobs[index] for index in placement.placed), key=lambda job: len(job.digests))
        logits: list[dict[str, Tensor]] = []
        embeddings = torch.empty(0)
        has_failed = True
        try:
            if placed:
                slots = {digest: prompt.slot for digest, prompt in placement.prompts.items()}
                images = stack([job.image for job in placed], cache.backbone.device)
                sets = [job.digests for job in placed]
                logits, embeddings = batch_logits(cache.backbone, images, placement.pool, sets, slots)
            has_failed = False
        finally:
            cache.release(placement, has_failed)
        self._requeue(batch, placement)
        if placed:
            self._record(placed, started_at, 1 if batch.is_alone else len(self._workers))
        outcomes: list[Outcome] = [(jobs[index], PromptEvicted()) for index in placement.missing]
        for job, own, embedding in zip(placed, logits, embeddings, strict=True):
            prompts = {digest: placement.prompts[digest] for digest in job.digests}
            outcomes.append((job, PictureLogits(own, prompts, embedding)))
        return outcomes

    def _requeue(self, batch: Batch, placement: BatchPlacement) -> None:
        """Queue the deferred jobs again. If the oldest is among them it runs alone next, so it cannot starve."""
        if batch.is_alone and placement.deferred and not placement.placed:
            raise RuntimeError("the prompts of a picture do not fit, though no other batch is running")
        count = len(batch.jobs)
        is_oldest_deferred = min(placement.deferred, default=count) < min(placement.placed, default=count)
        if is_oldest_deferred or placement.slots_too_wide:
            self._queue.run_next_alone()
        self._queue.requeue([batch.jobs[index] for index in placement.deferred])

    def _record(self, jobs: Sequence[Job], started_at: float, workers: int) -> None:
        seconds = time.monotonic() - started_at
        pairs = sum(len(job.digests) for job in jobs)
        with self._stats_lock:
            self._consecutive_failures = 0
            self.batches += 1
            self.pictures += len(jobs)
            self.pairs += pairs
            self.seconds_per_picture += 0.1 * (seconds / len(jobs) / workers - self.seconds_per_picture)
        try:
            self._observe(BatchStats(len(jobs), pairs, tuple(started_at - job.admitted_at for job in jobs), seconds))
        except Exception:  # a failing observer must not fail a prediction
            log.exception("a batch could not be observed")


def count_workers(settings: EngineSettings, threads: int) -> int:
    """Return how many batches are computed at the same time."""
    is_cpu = torch.device(settings.device).type == "cpu"
    return min(threads, MAX_WORKERS, settings.max_batch) if is_cpu else 1


def stack(images: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return the images as one (B, 3, S, S), in pinned memory for a GPU, so that the copy does not block."""
    if device.type != "cuda":
        return torch.stack(list(images)) if len(images) > 1 else images[0].unsqueeze(0)
    first = images[0]
    batch = torch.empty(len(images), *first.shape, dtype=first.dtype, pin_memory=True)
    return torch.stack(list(images), out=batch)


def use_threads(count: int) -> None:
    """Let torch compute with this many threads in the calling thread."""
    with _set_threads_lock:
        torch.set_num_threads(count)
        torch.get_num_threads()  # torch fixes a thread's count at its first use, to what any thread has set last


def use_one_thread() -> None:
    """Let torch compute with the calling thread only, so that there are no more threads than cores."""
    use_threads(1)
