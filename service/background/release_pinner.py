"""Pin the prompts of the releases in the settings, so that the engine evicts them last."""

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

INTERVAL_SECONDS = 10.0


class ReleasePinner:
    """Reads the releases periodically: they lose forgotten prompts, and may be created or removed."""

    def __init__(self, database: Database, engine: Engine, releases: Sequence[tuple[str, str]]) -> None:
        """Pin `releases`, each given as task and release by name or id."""
        self._database = database
        self._engine = engine
        self._releases = releases
        self._pool = ThreadPool(1)
        self._logged_missing: set[str] = set()

    async def run(self) -> None:
        """Update the pinned prompts forever; return at once if there are no releases."""
        while self._releases:
            try:
                self._engine.pin(await self._pool.run(self._read_digests, abandon_on_cancel=True))
            except DomainError as error:  # the pins stay as they are until the next attempt
                log(logging.WARNING, "release-pinner.delayed", reason=str(error))
            except Exception as error:
                log(logging.ERROR, "release-pinner.failed", error=error)
            await anyio.sleep(INTERVAL_SECONDS)

    def _read_digests(self) -> frozenset[str]:
        digests: set[str] = set()
        missing: set[str] = set()
        with self._database.read_transaction() as session:
            for task, name in self._releases:
                try:
                    release = find_release(session, find_task(session, task).id, name)
                    digests.update(member.digest for member in read_release(session, OPERATOR, release.id).members)
                except NotFound:
                    missing.add(f"{task}/{name}")
        for release_name in sorted(missing - self._logged_missing):
            log(logging.WARNING, "release-pinner.release-missing", release=release_name)
        self._logged_missing = missing
        return frozenset(digests)
