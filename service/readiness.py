"""Whether this replica can answer: asked often and by anybody, so the answer is kept for a moment."""

import logging
import time

import anyio

from registry import migrate
from registry.errors import DomainError
from registry.registry import Registry
from service.door import Door
from service.errors import NotReady
from service.logs import log
from service.replica import ReplicaKeeper

ROWS_SECONDS = 1.0
OBJECTS_SECONDS = 10.0
WAIT_SECONDS = 5.0


class Readiness:
    """Looks at SQL, objects and this replica, each not more often than it costs."""

    def __init__(self, registry: Registry, keeper: ReplicaKeeper) -> None:
        self._registry = registry
        self._keeper = keeper
        self._door = Door(2)
        self._newest = migrate.revisions()[-1]
        self._turn = anyio.Lock()
        self._found: dict[str, tuple[float, bool]] = {}

    async def require(self) -> None:
        """NotReady says what is missing."""
        async with self._turn:
            missing = [] if self._keeper.is_enrolled else ["this replica's place among the others"]
            if not await self._holds("the database", ROWS_SECONDS):
                missing.append("the database")
            if not await self._holds("the object store", OBJECTS_SECONDS):
                missing.append("the object store")
        if missing:
            raise NotReady(f"not ready, for want of {' and '.join(missing)}")

    async def _holds(self, what: str, seconds: float) -> bool:
        looked_at, holds = self._found.get(what, (0.0, False))
        if what not in self._found or time.monotonic() > looked_at + seconds:
            look = self._look_at_rows if what == "the database" else self._registry.objects.check
            try:
                with anyio.fail_after(WAIT_SECONDS):
                    await self._door.through(look, leave_behind=True)
                holds = True
            except (DomainError, TimeoutError) as error:
                log(logging.WARNING, "not-ready", what=what, reason=str(error) or type(error).__name__)
                holds = False
            self._found[what] = (time.monotonic(), holds)
        return holds

    def _look_at_rows(self) -> None:
        if migrate.current(self._registry.database) != self._newest:
            raise NotReady("the database has the tables of another version: run `alacarte db upgrade`")
