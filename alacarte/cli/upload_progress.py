"""Progress of uploads and of training after them, on stderr: a bar on a terminal, else occasional lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from alacarte.cli.output import format_percent, print_message

if TYPE_CHECKING:
    from alacarte.api.sources import SourceDetailResponse

SECONDS_BETWEEN_LINES = 5.0
MB = 10**6


class UploadProgress:
    """Shows what was uploaded, and remembers whether all of it may have arrived."""

    def __init__(self, show: Callable[[int, int], None], unreported: int) -> None:
        self.may_be_complete = False
        self._show = show
        self._unreported = unreported  # may be on its way before it is reported

    def __call__(self, done: int, total: int) -> None:
        self.may_be_complete = total - done <= self._unreported
        self._show(done, total)


@contextmanager
def show_upload(name: str, *, in_bytes: bool) -> Iterator[UploadProgress]:
    """Show the bytes sent to a service, or the pictures stored on this machine."""
    from alacarte._client.tar_stream import CHUNK_BYTES

    unreported = CHUNK_BYTES if in_bytes else 0
    if not sys.stderr.isatty():
        show = _print_lines(
            (lambda sent, total: f"{name}: {sent / MB:,.1f} of {total / MB:,.1f} MB sent")
            if in_bytes
            else (lambda done, total: f"{name}: {done:,} of {total:,} pictures stored")
        )
        yield UploadProgress(show, unreported)
        return
    amount = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(), TextColumn("pictures"))
    with _make_bar(BarColumn(), *amount, TimeRemainingColumn(), TextColumn("left")) as bars:
        bar = bars.add_task("")
        yield UploadProgress(lambda done, total: bars.update(bar, completed=done, total=total), unreported)


@contextmanager
def show_source_training() -> Iterator[Callable[["SourceDetailResponse"], None]]:
    """Show the training progress of a source."""
    if not sys.stderr.isatty():
        show = _print_lines(lambda done, total: f"trained {format_percent(done / total)}")
        yield lambda source: show(round(source.progress * MB), MB)
        return
    with _make_bar(BarColumn(), TextColumn("{task.percentage:.1f} % trained")) as bars:
        bar = bars.add_task("", total=1.0)
        yield lambda source: bars.update(bar, completed=source.progress)


def _make_bar(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, console=Console(stderr=True, markup=False))


def _print_lines(format_line: Callable[[int, int], str]) -> Callable[[int, int], None]:
    """Return a function that prints a line at most every few seconds."""
    printed_at = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at > SECONDS_BETWEEN_LINES:
            printed_at = time.monotonic()
            print_message(format_line(done, total))

    return show
