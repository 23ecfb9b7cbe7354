"""Periodic work of the service: run erasures, and clean up after processes that died."""

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

import anyio

from registry.access.caller import OPERATOR
from registry.erasure.runner import run_erasures
from registry.erasure.status import show_erasure
from registry.registry import Registry
from registry.storage.write_claims import clean_up_abandoned
from service.background.replica_sync import ReplicaSync
from service.concurrency import run_detached
from service.observability.logging import log
from service.observability.metrics import Metrics

INTERVAL_SECONDS = 3.0
CLEAN_UP_EVERY = 10  # rounds
STOP_TIMEOUT_S = 5.0


class ServiceMaintenance:
    """Runs a round every few seconds, and at once when an erasure is requested."""

    def __init__(self, registry: Registry, replica_sync: ReplicaSync, metrics: Metrics) -> None:
        self._registry = registry
        self._replica_sync = replica_sync
        self._metrics = metrics
        self._is_stopping = False
        self._wakeup = anyio.Event()
        self._incomplete: set[UUID] = set()  # erasures that were requested at this replica

    def schedule_erasure(self, erasure: UUID) -> None:
        """Start the next round at once, and measure how long this erasure takes."""
        self._incomplete.add(erasure)
        self._wakeup.set()

    async def run(self) -> None:
        """Run until cancelled; then wait a moment for the current job, and abandon it."""
        rounds = 0
        while True:
            with anyio.move_on_after(INTERVAL_SECONDS):
                await self._wakeup.wait()
            self._wakeup = anyio.Event()
            await self._replica_sync.poll()  # first, because erasures wait for the eviction
            await self._run_job("run erasures", lambda: run_erasures(self._registry, lambda: self._is_stopping))
            if self._incomplete:
                await self._run_job("measure erasures", self._measure_erasures)
            if rounds % CLEAN_UP_EVERY == 0:
                await self._run_job("clean up", self._clean_up)
            rounds += 1

    async def _run_job(self, name: str, work: Callable[[], object]) -> None:
        running = run_detached("maintenance", work)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            self._is_stopping = True
            # An erasure can be resumed from any point, but it has usually almost ended.
            with anyio.move_on_after(STOP_TIMEOUT_S, shield=True):
                await asyncio.wait([running])
            raise
        except Exception as error:  # the next round tries again
            log(logging.ERROR, "maintenance.failed", job=name, error=error)

    def _clean_up(self) -> None:
        clean_up_abandoned(self._registry.database, self._registry.objects, self._registry.scratch)

    def _measure_erasures(self) -> None:
        for erasure in sorted(self._incomplete):
            with self._registry.database.read_transaction() as session:
                progress = show_erasure(session, OPERATOR, erasure)
            if progress.completed_at is not None:
                duration = progress.completed_at - progress.requested_at
                self._metrics.erasure_seconds.observe(duration.total_seconds())
                self._incomplete.discard(erasure)
