"""Training progress of all sources, read from the registry and printed as lines."""

import time
from contextlib import suppress
from uuid import UUID

from alacarte.cli.local.registry import all_pages
from alacarte.cli.output import print_message
from registry.access.caller import OPERATOR
from registry.catalog.source_status import SourceStatus, read_source_status
from registry.catalog.sources import list_sources
from registry.errors import DatabaseUnreachable, NotFound
from registry.registry import Registry

REFRESH_SECONDS = 1.0
STEP = 0.25  # of a source's progress, between two lines


class RegistryProgress:
    """Prints a line when a source is a quarter further, trained, or has a new error."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._training: set[UUID] = set()
        self._printed: dict[UUID, tuple[int, str | None]] = {}
        self._next_refresh = 0.0

    def refresh(self) -> None:
        """Print what has changed, at most once a second."""
        if time.monotonic() < self._next_refresh:
            return
        self._next_refresh = time.monotonic() + REFRESH_SECONDS
        with suppress(DatabaseUnreachable):  # the service logs it
            for status in self._read_statuses():
                self.show(status)

    def show(self, status: SourceStatus) -> None:
        """Print a line about the source if there is something new."""
        step, error = int(status.progress / STEP), next((shard.error for shard in status.shards if shard.error), None)
        if self._printed.get(status.id) == (step, error):
            return
        self._printed[status.id] = (step, error)
        text = "trained" if status.progress >= 1 else f"{100 * status.progress:.0f} % trained"
        print_message(f"{status.name}: {text}" + (f"; {error}" if error else ""))

    def is_trained(self, source_id: UUID) -> bool:
        """Whether all shards of a source are trained, or it is deleted."""
        try:
            with self._registry.database.read_transaction() as session:
                return read_source_status(session, OPERATOR, source_id).progress >= 1
        except NotFound:
            return True
        except DatabaseUnreachable:
            return False

    def _read_statuses(self) -> list[SourceStatus]:
        """Return the sources that are in training, or were at the last refresh."""
        statuses: list[SourceStatus] = []
        with self._registry.database.read_transaction() as session:
            sources = all_pages(lambda after: list_sources(session, OPERATOR, None, after))
            training = {source.id for source in sources if source.trained < source.shards}
            for source_id in sorted(training | self._training):
                with suppress(NotFound):  # deleted meanwhile
                    statuses.append(read_source_status(session, OPERATOR, source_id))
        self._training = training
        return statuses
