"""Training progress from the registry: a bar for each source on a terminal, else lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from alacarte.cli.local.registry import all_pages
from alacarte.cli.output import print_message, replace_control_characters
from registry.access.caller import OPERATOR
from registry.catalog.source_status import SourceStatus, read_source_status
from registry.catalog.sources import list_sources
from registry.errors import DatabaseUnreachable, NotFound
from registry.registry import Registry

EVERY_SECONDS = 1.0
STEP = 0.25  # of a source's progress, between two lines

Show = Callable[[SourceStatus], None]


class TrainingProgress:
    """Shows every source that is in training, until it is trained or deleted."""

    def __init__(self, registry: Registry, show: Show, drop: Callable[[UUID], None]) -> None:
        self._registry = registry
        self._show = show
        self._drop = drop
        self._open: set[UUID] = set()
        self._next_refresh = 0.0

    def refresh(self) -> None:
        """Show what has changed, at most once a second."""
        if time.monotonic() < self._next_refresh:
            return
        self._next_refresh = time.monotonic() + EVERY_SECONDS
        with suppress(DatabaseUnreachable):  # shown again when it is back; the service logs it
            for state in self._read_states():
                self._show(state)

    def _read_states(self) -> list[SourceStatus]:
        """Return the sources that are in training, or were at the last refresh."""
        states: list[SourceStatus] = []
        with self._registry.database.read_transaction() as session:
            sources = list(all_pages(lambda after: list_sources(session, OPERATOR, None, after)))
            training = {source.id for source in sources if source.trained < source.shards}
            for source_id in sorted(training | self._open):
                try:
                    states.append(read_source_status(session, OPERATOR, source_id))
                except NotFound:
                    self._drop(source_id)
        self._open = training
        return states

    def is_trained(self, source_id: UUID) -> bool:
        """Whether all shards of a source are trained, or it is deleted."""
        try:
            with self._registry.database.read_transaction() as session:
                return read_source_status(session, OPERATOR, source_id).progress >= 1
        except NotFound:
            return True
        except DatabaseUnreachable:
            return False


@contextmanager
def show_registry_training(registry: Registry) -> Iterator[TrainingProgress]:
    """Show training on stderr: bars on a terminal, else lines."""
    if not sys.stderr.isatty():
        yield TrainingProgress(registry, Lines(print_message), lambda _: None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False), transient=True) as progress:
        bars = Bars(progress)
        yield TrainingProgress(registry, bars.show, bars.drop)


class Bars:
    """A bar for each source in training."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[UUID, TaskID] = {}

    def show(self, state: SourceStatus) -> None:
        """Move the source's bar; remove it when the source is trained."""
        if state.progress >= 1:
            self.drop(state.id)
            return
        if state.id not in self._bars:
            self._bars[state.id] = self._progress.add_task(replace_control_characters(state.name), total=1.0, note="")
        note = replace_control_characters(_first_error(state) or "")
        self._progress.update(self._bars[state.id], completed=state.progress, note=note)

    def drop(self, source_id: UUID) -> None:
        """Remove the bar of a source."""
        if (bar := self._bars.pop(source_id, None)) is not None:
            self._progress.remove_task(bar)


class Lines:
    """Prints a line when a source is a quarter further, trained, or has a new error."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print = print_line
        self._printed: dict[UUID, tuple[int, str | None]] = {}

    def __call__(self, state: SourceStatus) -> None:
        step, error = int(state.progress / STEP), _first_error(state)
        if self._printed.get(state.id) == (step, error):
            return
        self._printed[state.id] = (step, error)
        status = "trained" if state.progress >= 1 else f"{100 * state.progress:.0f} % trained"
        self._print(f"{state.name}: {status}" + (f"; {error}" if error else ""))


def _first_error(state: SourceStatus) -> str | None:
    return next((shard.error for shard in state.shards if shard.error), None)
