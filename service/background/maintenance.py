"""What must be done now and then by whoever has time: carrying out erasures, and clearing up after the dead."""

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

EVERY_SECONDS = 3.0
CLEAR_UP_EVERY = 10  # rounds
LEAVE_SECONDS = 5.0


class ServiceMaintenance:
    """Rounds that nothing ends but the end of the process; a wish to forget brings the next one forward."""

    def __init__(self, registry: Registry, replica_sync: ReplicaSync, metrics: Metrics) -> None:
        self._registry = registry
        self._replica_sync = replica_sync
        self._metrics = metrics
        self._is_over = False
        self._wish = anyio.Event()
        self._begun: set[UUID] = set()  # erasures that were asked for here, and are not complete

    def schedule_erasure(self, erasure: UUID) -> None:
        """The erasure is carried out at once, as far as it can be."""
        self._begun.add(erasure)
        self._wish.set()

    async def run(self) -> None:
        """Goes round until it is cancelled; what it is at has a moment to end then, else it is left behind."""
        rounds = 0
        while True:
            with anyio.move_on_after(EVERY_SECONDS):
                await self._wish.wait()
            self._wish = anyio.Event()
            await self._replica_sync.poll()  # memory first: erasing looks whether it is let go of
            await self._try("erasures", lambda: run_erasures(self._registry, lambda: self._is_over))
            if self._begun:
                await self._try("erasure seconds", self._measure)
            if rounds % CLEAR_UP_EVERY == 0:
                await self._try("clearing up", self._clear_up)
            rounds += 1

    async def _try(self, what: str, work: Callable[[], object]) -> None:
        working = run_detached("housekeeping", work)
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            self._is_over = True
            # An erasure may take long, and survives being left anywhere; but mostly there is little left of it.
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await asyncio.wait([working])
            raise
        except Exception as error:  # whatever it is, the next round may do better
            log(logging.ERROR, "housekeeping.failed", what=what, error=error)

    def _clear_up(self) -> None:
        clean_up_abandoned(self._registry.database, self._registry.objects, self._registry.scratch)

    def _measure(self) -> None:
        for erasure in sorted(self._begun):
            with self._registry.database.read_transaction() as session:
                progress = show_erasure(session, OPERATOR, erasure)
            if progress.completed_at is not None:
                taken = progress.completed_at - progress.requested_at
                self._metrics.erasure_seconds.observe(taken.total_seconds())
                self._begun.discard(erasure)
