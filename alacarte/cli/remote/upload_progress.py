"""How far sending and training are, on stderr: a bar where someone watches, a line now and then where it is kept."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from alacarte.cli.output import format_percent, print_message

if TYPE_CHECKING:
    from alacarte.api.sources import SourceDetailResponse

SECONDS_BETWEEN_LINES = 5.0
MB = 10**6


class Sending:
    """What was sent of something, so that whoever interrupts can be told what became of it."""

    def __init__(self, show: Callable[[int, int], None], chunk_bytes: int) -> None:
        self.may_be_complete = False
        self._show = show
        self._chunk_bytes = chunk_bytes

    def __call__(self, sent_bytes: int, total_bytes: int) -> None:
        # One more piece than was reported may be on its way.
        self.may_be_complete = total_bytes - sent_bytes <= self._chunk_bytes
        self._show(sent_bytes, total_bytes)


@contextmanager
def watched_sending(name: str) -> Iterator[Sending]:
    """A report of the bytes that were sent."""
    from alacarte._client.tar_stream import CHUNK_BYTES

    if not sys.stderr.isatty():
        show = _by_lines(lambda sent, total: f"{name}: {sent / MB:,.1f} of {total / MB:,.1f} MB sent")
        yield Sending(show, CHUNK_BYTES)
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), TextColumn("left"))
    with _bar(*columns) as bars:
        bar = bars.add_task("")

        yield Sending(lambda sent, total: bars.update(bar, completed=sent, total=total), CHUNK_BYTES)


@contextmanager
def watched_training() -> Iterator[Callable[["SourceDetailResponse"], None]]:
    """A report of a source whose shards are trained."""
    if not sys.stderr.isatty():
        show = _by_lines(lambda done, _: f"trained {format_percent(done / MB)}")
        yield lambda state: show(round(state.progress * MB), MB)
        return
    with _bar(BarColumn(), TextColumn("{task.percentage:.1f} % trained")) as bars:
        bar = bars.add_task("", total=1.0)
        yield lambda state: bars.update(bar, completed=state.progress)


def _bar(*columns: BarColumn | TextColumn | DownloadColumn | TransferSpeedColumn | TimeRemainingColumn) -> Progress:
    return Progress(*columns, console=Console(stderr=True, markup=False))


def _by_lines(line: Callable[[int, int], str]) -> Callable[[int, int], None]:
    """A line now and then, for whoever waits long enough to wonder."""
    spoke = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > SECONDS_BETWEEN_LINES:
            spoke = time.monotonic()
            print_message(line(done, total))

    return show
