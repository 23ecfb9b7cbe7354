"""Whether this replica can serve: `/readyz` is open and called often, so each check is cached for a moment."""

import asyncio
import logging
import time
from collections.abc import Callable

import anyio

from registry.db import migrate
from registry.errors import DomainError
from registry.registry import Registry
from service.background.replica_sync import ReplicaSync
from service.concurrency import ThreadPool
from service.engine.engine import Engine
from service.errors import NotReady
from service.observability.logging import log

DATABASE_TTL_SECONDS = 1.0
OBJECTS_TTL_SECONDS = 10.0
CHECK_TIMEOUT_S = 5.0


class ReadinessCheck:
    """One check, run once for all who wait for it; while it is repeated, the last result is served."""

    def __init__(self, failure: str, pool: ThreadPool, check: Callable[[], object], ttl_s: float) -> None:
        self.failure = failure
        self._pool = pool
        self._check = check
        self._ttl_s = ttl_s
        self._checked_at: float | None = None
        self._is_passing = False
        self._running: asyncio.Task[bool] | None = None

    async def is_passing(self) -> bool:
        """Return the result of a fresh check, or the last one while a check is running."""
        if self._checked_at is not None:
            is_fresh = time.monotonic() <= self._checked_at + self._ttl_s
            if is_fresh or self._running is not None:
                return self._is_passing
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(self._running)  # others wait for it too

    async def _run(self) -> bool:
        is_passing = False
        try:
            with anyio.fail_after(CHECK_TIMEOUT_S):
                await self._pool.run(self._check, abandon_on_cancel=True)
            is_passing = True
        except (DomainError, TimeoutError) as error:
            log(logging.WARNING, "readiness.failed", check=self.failure, reason=str(error) or type(error).__name__)
        finally:
            self._is_passing, self._checked_at, self._running = is_passing, time.monotonic(), None
        return is_passing


class Readiness:
    """Checks the database, the object store, the device and this replica's registration."""

    def __init__(self, registry: Registry, replica_sync: ReplicaSync, engine: Engine) -> None:
        self._registry = registry
        self._replica_sync = replica_sync
        self._engine = engine
        self._latest_revision = migrate.revisions()[-1]
        pool = ThreadPool(2)
        self._checks = (
            ReadinessCheck("the database is not usable", pool, self._check_database, DATABASE_TTL_SECONDS),
            ReadinessCheck("the object store is not reachable", pool, registry.objects.check, OBJECTS_TTL_SECONDS),
        )

    async def require(self) -> None:
        """Raise NotReady with every check that fails."""
        failures = [] if self._replica_sync.is_registered else ["this replica is not registered"]
        if not self._engine.is_healthy:
            failures.append("the device does not compute")
        results = await asyncio.gather(*(check.is_passing() for check in self._checks))
        failures += [check.failure for check, passed in zip(self._checks, results, strict=True) if not passed]
        if failures:
            raise NotReady(f"not ready: {'; '.join(failures)}")

    def _check_database(self) -> None:
        if migrate.current(self._registry.database) != self._latest_revision:
            raise NotReady("the tables are of another version: run `alacarte db upgrade`")
