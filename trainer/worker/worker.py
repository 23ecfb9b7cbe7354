"""The worker: leases shards one after the other and trains them, for as long as it may, whatever goes wrong with one.

How one shard is trained is told in `attempt`; here stands what becomes of the worker in each case.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Literal

from registry.errors import Invalid, LeaseLost
from registry.registry import Registry
from registry.training.lease import LEASE_SECONDS, Lease, to_single_line, validate_lease_seconds
from registry.training.queue import lease_shard
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.errors import Stopped, error_log_fields, translate_errors
from trainer.worker.heartbeat import LeaseHeartbeat
from trainer.worker.job import TrainingJob
from trainer.worker.log_events import log_event
from trainer.worker.maintenance import WorkerMaintenance, run_maintenance

BEAT_SECONDS = 2.0  # what is cancelled or forgotten is noticed so soon, however long a lease is
LONGEST_PAUSE_SECONDS = 30.0
NAP_SECONDS = 0.1

Ending = Literal["published", "failed", "lost", "given back", "idle"]


@dataclass(frozen=True)
class JobCounts:
    """What became of the shards that a worker took."""

    published: int
    failed: int
    lost: int


class Worker:
    """Trains shards in the thread that runs it; the name is how people find it."""

    def __init__(
        self,
        registry: Registry,
        backbones: WorkerBackbones,
        name: str,
        *,
        cache_bytes: int,
        lease_seconds: float = LEASE_SECONDS,
        poll_seconds: float = 1.0,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        validate_lease_seconds(lease_seconds)  # here, and not again and again when work is asked for
        if not (name := to_single_line(name)):
            raise Invalid("a worker needs a name by which people find it, such as its host and process")
        self.name = name
        self._registry = registry
        self._backbones = backbones
        self._cache_bytes = cache_bytes
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._beat_seconds = min(beat_seconds, lease_seconds / 4)

    def run(self, stop: Event, *, once: bool = False) -> JobCounts:
        """Works until it is told to stop, or, once, until there is no work; a shard in the midst is given back."""
        counts: Counter[Ending] = Counter()
        log_event("worker started", worker=self.name)
        with WorkerMaintenance(self._registry) as housekeeping:
            pause_seconds = self._poll_seconds
            while not stop.is_set():
                try:
                    ending = self._take_one(stop)
                except Exception as error:  # nobody could be asked for work
                    if once:
                        raise
                    log_event("no work can be had", level=logging.WARNING, **error_log_fields(error))
                    _pause(stop, pause_seconds)
                    pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
                    continue
                pause_seconds = self._poll_seconds
                counts[ending] += 1
                if ending != "idle":
                    housekeeping.nudge()
                elif once:
                    break
                else:
                    _pause(stop, self._poll_seconds)
        if once and not stop.is_set():
            run_maintenance(self._registry)
        tally = JobCounts(counts["published"], counts["failed"], counts["lost"])
        log_event("worker stopped", worker=self.name, published=tally.published, failed=tally.failed, lost=tally.lost)
        return tally

    def _take_one(self, stop: Event) -> Ending:
        """One attempt at the most urgent work, if there is any; raises only if nobody could be asked for it."""
        lease: Lease | None = None
        leased_at = time.monotonic()
        try:
            with lease_shard(self._registry, self.name, seconds=self._lease_seconds) as found:
                if found is None:
                    return "idle"
                lease, room = found
                _tell("leased", lease, generation=lease.generation, samples=len(lease.samples))
                with LeaseHeartbeat(self._registry.database, lease, leased_at, self._beat_seconds) as heartbeat:
                    attempt = TrainingJob(
                        self._registry, lease, room, heartbeat, _check_of(stop, heartbeat), _pause_of(stop)
                    )
                    with translate_errors(room):
                        prompt = attempt.run(self._backbones, self._cache_bytes)
                _tell("published", lease, prompt=str(prompt.id), bytes=prompt.size_bytes)
                return "published"
        except Stopped:
            if lease is not None:
                _tell("given back", lease)
            return "given back"
        except LeaseLost:
            if lease is None:
                raise
            _tell("lost", lease)
            return "lost"
        except Exception as error:  # the edge of the loop: `leased` has noted it on the shard
            if lease is None:
                raise
            _tell("failed", lease, level=logging.WARNING, **error_log_fields(error))
            return "failed"


def _check_of(stop: Event, heartbeat: LeaseHeartbeat) -> Callable[[], None]:
    def check() -> None:
        if stop.is_set():
            raise Stopped
        heartbeat.check()

    return check


def _pause_of(stop: Event) -> Callable[[float], None]:
    def pause(seconds: float) -> None:
        _pause(stop, seconds)
        if stop.is_set():
            raise Stopped

    return pause


def _pause(stop: Event, seconds: float) -> None:
    """Waits, or less if it is told to stop; a signal handler that sets the event must never find its lock taken."""
    end = time.monotonic() + seconds
    while not stop.is_set() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, NAP_SECONDS))


def _tell(event: str, lease: Lease, *, level: int = logging.INFO, **fields: object) -> None:
    log_event(
        event, level=level, shard=str(lease.shard_id), source=str(lease.source_id), task=str(lease.task.id), **fields
    )
