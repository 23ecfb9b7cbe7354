"""Whether this replica can answer: asked often and by anybody, so the answer is kept for a moment."""

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

ROWS_SECONDS = 1.0
OBJECTS_SECONDS = 10.0
WAIT_SECONDS = 5.0


class Look:
    """A look at one thing: made by one for all who ask meanwhile, none of whom waits for a second one."""

    def __init__(self, what: str, pool: ThreadPool, work: Callable[[], object], seconds: float) -> None:
        self.what = what
        self._pool = pool
        self._work = work
        self._seconds = seconds  # how long it is believed
        self._looked_at: float | None = None
        self._held = False
        self._looking: asyncio.Task[bool] | None = None

    async def holds(self) -> bool:
        """Whether it is there; while somebody looks again the others hear what was found before."""
        if self._looked_at is not None:
            is_fresh = time.monotonic() <= self._looked_at + self._seconds
            if is_fresh or self._looking is not None:
                return self._held
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)  # which goes on though whoever asked be gone

    async def _look(self) -> bool:
        try:
            with anyio.fail_after(WAIT_SECONDS):
                await self._pool.run(self._work, abandon_on_cancel=True)
            self._held = True
        except (DomainError, TimeoutError) as error:
            log(logging.WARNING, "not-ready", what=self.what, reason=str(error) or type(error).__name__)
            self._held = False
        finally:
            self._looked_at, self._looking = time.monotonic(), None
        return self._held


class Readiness:
    """Looks at SQL, objects and this replica, each not more often than it costs."""

    def __init__(self, registry: Registry, replica_sync: ReplicaSync, engine: Engine) -> None:
        self._registry = registry
        self._replica_sync = replica_sync
        self._engine = engine
        self._pool = ThreadPool(2)
        self._newest = migrate.revisions()[-1]
        self._looks = (
            Look("the database", self._pool, self._look_at_rows, ROWS_SECONDS),
            Look("the object store", self._pool, registry.objects.check, OBJECTS_SECONDS),
        )

    async def require(self) -> None:
        """NotReady says what is missing."""
        missing = [] if self._replica_sync.is_enrolled else ["this replica's place among the others"]
        if not self._engine.is_healthy:
            missing.append("a device that computes")
        found = await asyncio.gather(*(look.holds() for look in self._looks))
        missing += [look.what for look, holds in zip(self._looks, found, strict=True) if not holds]
        if missing:
            raise NotReady(f"not ready, for want of {' and '.join(missing)}")

    def _look_at_rows(self) -> None:
        if migrate.current(self._registry.database) != self._newest:
            raise NotReady("the database has the tables of another version: run `alacarte db upgrade`")
