"""How far training is, as the registry knows it: a bar for each source where someone watches, else lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from alacarte.cli.errors import printable
from alacarte.cli.local_options import all_pages
from alacarte.cli.tables import say
from registry.access.caller import OPERATOR
from registry.catalog.source_status import SourceState, show_source
from registry.catalog.sources import list_sources
from registry.errors import DatabaseUnreachable, NotFound
from registry.registry import Registry

EVERY_SECONDS = 1.0
STEP = 0.25  # of a source's progress, between two lines

Show = Callable[[SourceState], None]


class Watch:
    """Shows every source that is in training, until it is trained or gone."""

    def __init__(self, registry: Registry, show: Show, drop: Callable[[UUID], None]) -> None:
        self._registry = registry
        self._show = show
        self._drop = drop
        self._open: set[UUID] = set()
        self._next_look = 0.0

    def look(self) -> None:
        """Shows what has changed, but not more often than a person can read."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + EVERY_SECONDS
        with suppress(DatabaseUnreachable):  # for a moment, or the service will tell
            for state in self._find():
                self._show(state)

    def _find(self) -> list[SourceState]:
        """The sources that are in training, or were a moment ago."""
        states: list[SourceState] = []
        with self._registry.database.reading() as session:
            sources = list(all_pages(lambda after: list_sources(session, OPERATOR, None, after)))
            training = {source.id for source in sources if source.trained < source.shards}
            for source_id in sorted(training | self._open):
                try:
                    states.append(show_source(session, OPERATOR, source_id))
                except NotFound:
                    self._drop(source_id)
        self._open = training
        return states

    def is_trained(self, source_id: UUID) -> bool:
        """Whether all of a source answers, or it is gone."""
        try:
            with self._registry.database.reading() as session:
                return show_source(session, OPERATOR, source_id).progress >= 1
        except NotFound:
            return True
        except DatabaseUnreachable:
            return False


@contextmanager
def watching(registry: Registry) -> Iterator[Watch]:
    """A watch that shows itself in the way that suits where stderr goes."""
    if not sys.stderr.isatty():
        yield Watch(registry, Lines(say), lambda _: None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False), transient=True) as progress:
        bars = Bars(progress)
        yield Watch(registry, bars.show, bars.drop)


class Bars:
    """A bar for each source in training."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[UUID, TaskID] = {}

    def show(self, state: SourceState) -> None:
        """Moves its bar, which goes when there is nothing more to do."""
        if state.progress >= 1:
            self.drop(state.id)
            return
        if state.id not in self._bars:
            self._bars[state.id] = self._progress.add_task(printable(state.name), total=1.0, note="")
        note = printable(_fault_of(state) or "")
        self._progress.update(self._bars[state.id], completed=state.progress, note=note)

    def drop(self, source_id: UUID) -> None:
        """No bar for it any more."""
        if (bar := self._bars.pop(source_id, None)) is not None:
            self._progress.remove_task(bar)


class Lines:
    """A line for each source when it has come a step further, is trained, or has a new fault."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: dict[UUID, tuple[int, str | None]] = {}

    def __call__(self, state: SourceState) -> None:
        step, fault = int(state.progress / STEP), _fault_of(state)
        if self._told.get(state.id) == (step, fault):
            return
        self._told[state.id] = (step, fault)
        how = "trained" if state.progress >= 1 else f"{100 * state.progress:.0f} % trained"
        self._tell(f"{state.name}: {how}" + (f"; {fault}" if fault else ""))


def _fault_of(state: SourceState) -> str | None:
    return next((shard.error for shard in state.shards if shard.error), None)
