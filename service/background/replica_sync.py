"""Keep this replica's memory in step with erasures: evict what was forgotten, and report the epoch in SQL.

A replica that cannot report loses its lease and evicts everything. Rights do not depend on this: they are read from
SQL for every answer.
"""

import gc
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from uuid import UUID

import anyio

from registry.access.usable_prompts import UsablePrompt
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
from service.concurrency import ThreadPool
from service.engine.engine import Engine
from service.engine.prompt_loader import PromptPredicate
from service.errors import NotReady
from service.observability.logging import log

LEASE_SECONDS = 20.0
RENEW_SECONDS = 5.0  # between reports of the same epoch: each is a write
POLL_SECONDS = 1.0
UNREGISTER_TIMEOUT_S = 5.0  # a hanging database must not delay the shutdown


class InFlightRequests:
    """Predictions in progress, which may load prompts until they have ended; used on the event loop only."""

    def __init__(self) -> None:
        self._numbers = count()
        self._running: set[int] = set()

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count one prediction, from before it reads its rights until its response is complete."""
        number = next(self._numbers)
        self._running.add(number)
        try:
            yield
        finally:
            self._running.remove(number)

    def mark(self) -> int:
        """Return a number that is larger than those of all predictions so far, and smaller than those of later ones."""
        return next(self._numbers)

    def have_finished(self, mark: int) -> bool:
        """Return whether every prediction from before the mark has ended."""
        return all(number > mark for number in self._running)


@dataclass(frozen=True)
class _PendingEviction:
    """Evictions that a prediction from before the mark may still undo by loading a prompt."""

    previous_epoch: int  # the last epoch without them
    evictions: tuple[Eviction, ...]
    mark: int

    def matches(self, prompt: UsablePrompt) -> bool:
        """Return whether the prompt was forgotten."""
        return any(
            prompt.source_id == gone.source_id and gone.shard_id in (None, prompt.shard_id) for gone in self.evictions
        )


def _everything(_: UsablePrompt) -> bool:
    return True


class ReplicaSync:
    """Registers this replica, evicts forgotten prompts, and reports the epoch that it has reached."""

    def __init__(self, database: Database, engine: Engine, in_flight: InFlightRequests) -> None:
        self._database = database
        self._engine = engine
        self._in_flight = in_flight
        self._pool = ThreadPool(2)  # its own, so that many requests cannot delay the heartbeat
        self._replica_id: UUID | None = None
        self._epoch = 0  # up to which evictions are known
        self._reported_epoch = 0
        self._renewed_at = 0.0  # monotonic, taken before the renewal was sent
        self._pending: list[_PendingEviction] = []
        self._poll_lock = anyio.Lock()
        self._dropped_mark: int | None = None  # predictions from before it may still load prompts

    @property
    def is_registered(self) -> bool:
        """Whether erasures wait for this replica; only then may it load prompts."""
        return self._replica_id is not None and time.monotonic() < self._renewed_at + LEASE_SECONDS

    def require_registered(self) -> None:
        """Raise NotReady while erasures do not wait for this replica."""
        if not self.is_registered:
            raise NotReady("this replica has lost its registration in the database: try again in a moment")

    async def run(self) -> None:
        """Poll forever."""
        while True:
            await self.poll()
            await anyio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Evict what was forgotten since the last poll; failures are logged, and the next poll tries again."""
        async with self._poll_lock:
            try:
                with anyio.fail_after(self._poll_timeout_s()):
                    await (self._sync() if self.is_registered else self._register())
            except LeaseLost:
                self._drop_all()
            except (DomainError, TimeoutError) as error:
                log(logging.WARNING, "replica.sync-delayed", reason=str(error) or type(error).__name__)
            except Exception as error:
                log(logging.ERROR, "replica.sync-failed", error=error)
            if not self.is_registered:
                self._drop_all()

    async def leave(self) -> None:
        """Evict everything, and unregister, so that no erasure waits for this replica."""
        self._engine.evict(_everything)
        replica_id, self._replica_id = self._replica_id, None
        if self._engine.has_in_memory(_everything):  # an abandoned pass still runs: let the lease expire instead
            return
        if replica_id is not None:
            try:
                with anyio.fail_after(UNREGISTER_TIMEOUT_S):
                    await self._pool.run(lambda: self._unregister(replica_id), abandon_on_cancel=True)
            except (DomainError, TimeoutError) as error:  # then the lease expires
                log(logging.WARNING, "replica.unregister-failed", reason=str(error) or type(error).__name__)

    def _drop_all(self) -> None:
        """Evict everything; predictions in progress may load some of it again until they have ended."""
        self._replica_id = None
        self._pending.clear()
        self._engine.evict(_everything)
        if self._dropped_mark is None:
            self._dropped_mark = self._in_flight.mark()

    def _poll_timeout_s(self) -> float:
        """Return how long a poll may take: when the lease expires, everything must have been evicted."""
        if not self.is_registered:
            return LEASE_SECONDS / 2
        return min(LEASE_SECONDS / 2, self._renewed_at + LEASE_SECONDS - time.monotonic())

    async def _register(self) -> None:
        self._engine.evict(_everything)
        if self._dropped_mark is not None and not self._is_evicted(self._dropped_mark, _everything):
            return
        started = time.monotonic()
        self._replica_id, self._epoch = await self._pool.run(self._insert_replica, abandon_on_cancel=True)
        self._reported_epoch, self._renewed_at, self._dropped_mark = self._epoch, started, None

    async def _sync(self) -> None:
        epoch, evictions = await self._pool.run(self._read_erasures, abandon_on_cancel=True)
        if evictions:
            self._pending.append(_PendingEviction(self._epoch, tuple(evictions), self._in_flight.mark()))
        self._epoch = epoch
        if self._pending:
            self._engine.evict(lambda prompt: any(pending.matches(prompt) for pending in self._pending))
            self._pending = [
                pending for pending in self._pending if not self._is_evicted(pending.mark, pending.matches)
            ]
        reached = self._pending[0].previous_epoch if self._pending else self._epoch
        if reached > self._reported_epoch or time.monotonic() > self._renewed_at + RENEW_SECONDS:
            started = time.monotonic()
            await self._pool.run(lambda: self._report(reached), abandon_on_cancel=True)
            self._reported_epoch, self._renewed_at = reached, started

    def _is_evicted(self, mark: int, matches: PromptPredicate) -> bool:
        """Return whether no matching prompt is in memory, and no prediction from before the mark can load one."""
        if not self._in_flight.have_finished(mark):
            return False
        if self._engine.has_in_memory(matches):
            gc.collect()  # unreachable cycles may hold it
        # Checked again: a prediction may have ended with its client while its pass still runs.
        return not self._engine.has_in_memory(matches)

    def _insert_replica(self) -> tuple[UUID, int]:
        with self._database.write_transaction() as session:
            replica = register_replica(session, f"{socket.gethostname()}:{os.getpid()}", LEASE_SECONDS)
            return replica.id, replica.epoch

    def _read_erasures(self) -> tuple[int, list[Eviction]]:
        with self._database.read_transaction() as session:
            # In this order: an erasure that is committed between the two is evicted early, never late.
            epoch = current_epoch(session)
            return epoch, erasures_since(session, self._epoch) if epoch > self._epoch else []

    def _report(self, epoch: int) -> None:
        assert self._replica_id is not None
        with self._database.write_transaction() as session:
            report_epoch(session, self._replica_id, epoch, LEASE_SECONDS)

    def _unregister(self, replica_id: UUID) -> None:
        with self._database.write_transaction() as session:
            unregister_replica(session, replica_id)
