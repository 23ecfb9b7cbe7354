"""The worker: lease one shard after the other and run its training job (`job.py`), whatever goes wrong with one."""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from threading import Event
from typing import Literal

from registry.errors import Invalid, LeaseLost
from registry.registry import Registry
from registry.training.lease import Lease, to_single_line
from registry.training.queue import lease_shard
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.errors import StopRequested, translate_errors
from trainer.worker.job import LeaseHeartbeat, TrainingJob, sleep_unless_stopped
from trainer.worker.log import error_fields, log_event
from trainer.worker.maintenance import WorkerMaintenance, run_maintenance

HEARTBEAT_SECONDS = 2.0  # a cancelled or forgotten shard is noticed this soon, however long the lease is
MAX_PAUSE_SECONDS = 30.0

JobOutcome = Literal["published", "failed", "lost", "released", "idle"]


@dataclass(frozen=True)
class JobCounts:
    """The outcomes of a worker's jobs."""

    published: int
    failed: int
    lost: int


class Worker:
    """Trains shards in the thread that runs it; people see it by its name."""

    def __init__(
        self,
        registry: Registry,
        backbones: WorkerBackbones,
        name: str,
        *,
        cache_bytes: int,
        poll_seconds: float = 1.0,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        if not (name := to_single_line(name)):
            raise Invalid("a worker needs a name by which people find it, such as its host and process")
        self.name = name
        self._registry = registry
        self._backbones = backbones
        self._cache_bytes = cache_bytes
        self._poll_seconds = poll_seconds
        self._heartbeat_seconds = heartbeat_seconds

    def run(self, stop: Event, *, once: bool = False) -> JobCounts:
        """Work until `stop` is set or, with `once`, until there is no work; a shard in training is released."""
        outcomes: Counter[JobOutcome] = Counter()
        log_event("worker started", worker=self.name)
        with WorkerMaintenance(self._registry) as maintenance:
            pause_seconds = self._poll_seconds
            while not stop.is_set():
                try:
                    outcome = self._run_next_job(stop)
                except Exception as error:  # no lease could be requested
                    if once:
                        raise
                    log_event("lease request failed", level=logging.WARNING, **error_fields(error))
                    sleep_unless_stopped(stop, pause_seconds)
                    pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)
                    continue
                pause_seconds = self._poll_seconds
                outcomes[outcome] += 1
                if outcome != "idle":
                    maintenance.run_soon()
                elif once:
                    break
                else:
                    sleep_unless_stopped(stop, self._poll_seconds)
        if once and not stop.is_set():
            run_maintenance(self._registry)
        counts = JobCounts(outcomes["published"], outcomes["failed"], outcomes["lost"])
        log_event(
            "worker stopped", worker=self.name, published=counts.published, failed=counts.failed, lost=counts.lost
        )
        return counts

    def _run_next_job(self, stop: Event) -> JobOutcome:
        """Lease the most urgent shard, if there is any, and train it; raises only if no lease could be requested."""
        lease: Lease | None = None
        leased_at = time.monotonic()
        try:
            with lease_shard(self._registry, self.name) as found:
                if found is None:
                    return "idle"
                lease, folder = found
                _log("shard leased", lease, generation=lease.generation, samples=len(lease.samples))
                with LeaseHeartbeat(self._registry.database, lease, leased_at, self._heartbeat_seconds) as heartbeat:
                    job = TrainingJob(self._registry, lease, folder, heartbeat, stop)
                    with translate_errors(folder):
                        prompt = job.run(self._backbones, self._cache_bytes)
                _log("prompt published", lease, prompt=str(prompt.id), bytes=prompt.size_bytes)
                return "published"
        except StopRequested:
            if lease is not None:
                _log("shard released", lease)
            return "released"
        except LeaseLost:
            if lease is None:
                raise
            _log("lease lost", lease)
            return "lost"
        except Exception as error:  # `lease_shard` has recorded it on the shard
            if lease is None:
                raise
            _log("training failed", lease, level=logging.WARNING, **error_fields(error))
            return "failed"


def _log(event: str, lease: Lease, *, level: int = logging.INFO, **fields: object) -> None:
    ids = {"shard": str(lease.shard_id), "source": str(lease.source_id), "task": str(lease.task.id)}
    log_event(event, level=level, **ids, **fields)
