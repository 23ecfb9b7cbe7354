"""Releases that the operator has pinned: the engine hears what they hold, and keeps it in memory longest."""

import logging
from collections.abc import Sequence

import anyio

from registry.access.caller import OPERATOR
from registry.catalog.releases import find_release, read_release
from registry.catalog.tasks import find_task
from registry.db.database import Database
from registry.errors import DomainError, NotFound
from service.concurrency import ThreadPool
from service.engine.engine import Engine
from service.observability.logging import log

EVERY_SECONDS = 10.0


class ReleasePinner:
    """Looks now and then what the releases hold, for they lose what is forgotten, and may come and go themselves."""

    def __init__(self, database: Database, engine: Engine, releases: Sequence[tuple[str, str]]) -> None:
        """`releases`: task and release of each, by name or id."""
        self._database = database
        self._engine = engine
        self._releases = releases
        self._pool = ThreadPool(1)
        self._missed: set[str] = set()  # what was told to be missing, and is told once

    async def run(self) -> None:
        """Looks for ever, unless there is nothing to look for."""
        while self._releases:
            try:
                self._engine.pin(await self._pool.run(self._digests, abandon_on_cancel=True))
            except DomainError as error:  # until the next look, what is pinned stays so
                log(logging.WARNING, "pinning.late", reason=str(error))
            except Exception as error:
                log(logging.ERROR, "pinning.failed", error=error)
            await anyio.sleep(EVERY_SECONDS)

    def _digests(self) -> frozenset[str]:
        found: set[str] = set()
        missing: set[str] = set()
        with self._database.read_transaction() as session:
            for task, name in self._releases:
                try:
                    release = find_release(session, find_task(session, task).id, name)
                    found.update(member.digest for member in read_release(session, OPERATOR, release.id).members)
                except NotFound:
                    missing.add(f"{task}/{name}")
        for what in sorted(missing - self._missed):
            log(logging.WARNING, "pinning.missing", release=what)
        self._missed = missing
        return frozenset(found)
