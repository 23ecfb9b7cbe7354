"""This process as a replica: it lets go of what was forgotten, says so in SQL, and counts as dead if it cannot."""

import gc
import logging
import os
import socket
import time
from dataclasses import dataclass
from uuid import UUID

import anyio

from registry.access.usable_set import UsablePrompt
from registry.db.database import Database
from registry.erasure.replicas import (
    Eviction,
    current_epoch,
    erasures_since,
    register_replica,
    report_epoch,
    unregister_replica,
)
from registry.errors import DomainError, LeaseLost
from service.background.in_flight import InFlightRequests
from service.concurrency import ThreadPool
from service.engine.engine import Engine
from service.engine.prompt_loader import PromptPredicate
from service.errors import NotReady
from service.observability.logging import log

LEASE_SECONDS = 20.0
RENEW_SECONDS = 5.0  # a report without news: each is a write
POLL_SECONDS = 1.0
LEAVE_SECONDS = 5.0  # for the farewell: nobody's shutdown waits for a database that hangs


@dataclass(frozen=True)
class _Letting:
    """What is being let go of: a prediction that began before the mark may still bring it back into memory."""

    since: int  # the epoch before, up to which nothing of it was known
    evictions: tuple[Eviction, ...]
    mark: int

    def takes(self, prompt: UsablePrompt) -> bool:
        """Whether the prompt is of what was forgotten."""
        return any(
            prompt.source_id == gone.source_id and gone.shard_id in (None, prompt.shard_id) for gone in self.evictions
        )


def _everything(_: UsablePrompt) -> bool:
    return True


class ReplicaSync:
    """Keeps memory and SQL in step. No right rests on it: those are read anew for every answer."""

    def __init__(self, database: Database, engine: Engine, in_flight: InFlightRequests) -> None:
        self._database = database
        self._engine = engine
        self._in_flight = in_flight
        self._pool = ThreadPool(2)  # its own: a crowd of requests must not keep it from its heartbeat
        self._id: UUID | None = None
        self._seen = 0  # the epoch up to which evictions are known
        self._reported = 0
        self._renewed_at = 0.0  # by the monotonic clock, before the renewal was sent
        self._letting: list[_Letting] = []
        self._turn = anyio.Lock()
        self._drained: int | None = None  # the mark since which nothing may be in memory

    @property
    def is_enrolled(self) -> bool:
        """Whether forgetting waits for this replica; only then may it take prompts into memory."""
        return self._id is not None and time.monotonic() < self._renewed_at + LEASE_SECONDS

    def require_enrolled(self) -> None:
        """NotReady while forgetting would not wait for this replica."""
        if not self.is_enrolled:
            raise NotReady("this replica has just lost sight of the registry: try again in a moment")

    async def run(self) -> None:
        """Polls for ever."""
        while True:
            await self.poll()
            await anyio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Looks once at what was forgotten; whatever goes wrong is tried again at the next."""
        async with self._turn:
            try:
                with anyio.fail_after(self._most_seconds()):
                    await (self._keep_up() if self.is_enrolled else self._enrol())
            except LeaseLost:
                self._drop()
            except (DomainError, TimeoutError) as error:
                log(logging.WARNING, "replica.late", reason=str(error) or type(error).__name__)
            except Exception as error:
                log(logging.ERROR, "replica.failed", error=error)
            if not self.is_enrolled:
                self._drop()

    async def leave(self) -> None:
        """Nothing is in memory any more, and nobody waits for this replica."""
        self._engine.evict(_everything)
        replica, self._id = self._id, None
        if self._engine.has_in_memory(_everything):  # a pass that nobody waits for: while it may run the lease holds
            return
        if replica is not None:
            try:
                with anyio.fail_after(LEAVE_SECONDS):
                    await self._pool.run(lambda: self._leave(replica), abandon_on_cancel=True)
            except (DomainError, TimeoutError) as error:  # then its lease runs out
                log(logging.WARNING, "replica.left-late", reason=str(error) or type(error).__name__)

    def _drop(self) -> None:
        """Lets go of everything; predictions that are under way may bring some of it back until they have ended."""
        self._id = None
        self._letting.clear()
        self._engine.evict(_everything)
        if self._drained is None:
            self._drained = self._in_flight.mark()

    def _most_seconds(self) -> float:
        """How long a look may take: who counts as dead by then must have let go of everything."""
        if not self.is_enrolled:
            return LEASE_SECONDS / 2
        return min(LEASE_SECONDS / 2, self._renewed_at + LEASE_SECONDS - time.monotonic())

    async def _enrol(self) -> None:
        self._engine.evict(_everything)
        if self._drained is not None and not self._is_gone(self._drained, _everything):
            return
        started = time.monotonic()
        self._id, self._seen = await self._pool.run(self._new_replica, abandon_on_cancel=True)
        self._reported, self._renewed_at, self._drained = self._seen, started, None

    async def _keep_up(self) -> None:
        epoch, evictions = await self._pool.run(self._news, abandon_on_cancel=True)
        if evictions:
            self._letting.append(_Letting(self._seen, tuple(evictions), self._in_flight.mark()))
        self._seen = epoch
        if self._letting:
            self._engine.evict(lambda prompt: any(letting.takes(prompt) for letting in self._letting))
            self._letting = [letting for letting in self._letting if not self._is_gone(letting.mark, letting.takes)]
        clear = self._letting[0].since if self._letting else self._seen
        if clear > self._reported or time.monotonic() > self._renewed_at + RENEW_SECONDS:
            started = time.monotonic()
            await self._pool.run(lambda: self._report(clear), abandon_on_cancel=True)
            self._reported, self._renewed_at = clear, started

    def _is_gone(self, mark: int, matches: PromptPredicate) -> bool:
        """Whether nothing that matches is in memory, and no prediction from before the mark can bring it back."""
        if not self._in_flight.have_finished(mark):
            return False
        if self._engine.has_in_memory(matches):
            gc.collect()  # what nobody can reach may hold on to it
        # A prediction may have landed, its client gone, while the pass that it began still runs.
        return not self._engine.has_in_memory(matches)

    def _new_replica(self) -> tuple[UUID, int]:
        with self._database.write_transaction() as session:
            replica = register_replica(session, f"{socket.gethostname()}:{os.getpid()}", LEASE_SECONDS)
            return replica.id, replica.epoch

    def _news(self) -> tuple[int, list[Eviction]]:
        with self._database.read_transaction() as session:
            # In this order: what is forgotten between the two is let go of too early, never too late.
            epoch = current_epoch(session)
            return epoch, erasures_since(session, self._seen) if epoch > self._seen else []

    def _report(self, epoch: int) -> None:
        assert self._id is not None
        with self._database.write_transaction() as session:
            report_epoch(session, self._id, epoch, LEASE_SECONDS)

    def _leave(self, replica: UUID) -> None:
        with self._database.write_transaction() as session:
            unregister_replica(session, replica)
