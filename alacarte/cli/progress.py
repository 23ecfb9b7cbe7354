"""Progress on stderr: a bar on a terminal, else occasional lines."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from alacarte.cli.output import format_percent, print_message

if TYPE_CHECKING:  # importing the trainer imports torch
    from alacarte.api.sources import SourceDetailResponse
    from trainer.optimize import EpochProgress, ReportProgress
    from trainer.study.eta import EtaEstimator
    from trainer.study.runner import ProgressCallback
    from trainer.study.training_spec import TrainingSpec

MAX_LINES = 10  # for one prompt
STUDY_LINE_SECONDS = 15.0
LINE_SECONDS = 5.0  # between two lines about an upload
MB = 10**6

Show = Callable[[float, str, bool], None]  # the fraction done, a text, and whether it deserves a line


@contextmanager
def open_display() -> Iterator[Show]:
    """Show a bar with the text on a terminal, else print the texts that deserve a line."""
    if not sys.stderr.isatty():
        yield lambda _fraction, text, is_line: print_message(text) if is_line else None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, markup=False)) as bars:
        bar = bars.add_task("", total=1.0)
        yield lambda fraction, text, _is_line: bars.update(bar, description=text, completed=fraction)


class RateLimit:
    """Returns True at most once in a number of seconds, and not in the first ones; safe for threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()
        self._lock = threading.Lock()

    def __call__(self) -> bool:
        with self._lock:
            if time.monotonic() - self._last < self._seconds:
                return False
            self._last = time.monotonic()
            return True


@contextmanager
def show_training(samples: Mapping[str, int], epochs: int) -> "Iterator[Callable[[str], ReportProgress]]":
    """Show the training of named parts with these numbers of samples; yield a function that makes their callbacks."""
    start, total = time.monotonic(), epochs * sum(samples.values())
    done = 0  # samples times epochs, which cost about the same each
    with open_display() as show:

        def make_callback(name: str) -> "ReportProgress":
            title = f"{name} ({list(samples).index(name) + 1} of {len(samples)})"

            def report(progress: "EpochProgress") -> None:
                nonlocal done
                done += samples[name]
                left = format_duration((time.monotonic() - start) / done * (total - done))
                text = f"{title}: epoch {progress.epoch} of {epochs}, loss {progress.loss:.3f}, {left} left"
                show(done / total, text, progress.epoch % -(-epochs // MAX_LINES) == 0 or progress.epoch == epochs)

            return report

        yield make_callback


@contextmanager
def show_study() -> "Iterator[ProgressCallback]":
    """Show the progress of all trainings of a study."""
    is_line = RateLimit(STUDY_LINE_SECONDS)
    with open_display() as show:

        def report(training: "TrainingSpec", progress: "EpochProgress", eta: "EtaEstimator") -> None:
            left = eta.seconds_left()
            rest = "" if left is None else f", {format_duration(left)} left"
            variant = "" if training.recipe.variant == "deep" else f", {training.recipe.variant}"
            current = (
                f"{training.method}{variant} on {len(training.samples):,} pictures, "
                f"epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.3f}"
            )
            show(eta.fraction_done, f"{100 * eta.fraction_done:.0f} % trained{rest}; now {current}", is_line())

        yield report


class UploadProgress:
    """The callback of an upload; it knows whether all of it may have arrived."""

    def __init__(self, report: Callable[[int, int], None], unreported: int) -> None:
        self.may_be_complete = False
        self._report = report
        self._unreported = unreported  # may be on its way before it is reported

    def __call__(self, done: int, total: int) -> None:
        self.may_be_complete = total - done <= self._unreported
        self._report(done, total)


@contextmanager
def show_upload(name: str, *, in_bytes: bool) -> Iterator[UploadProgress]:
    """Show the bytes sent to a service, or the pictures stored on this machine."""
    from alacarte._client.tar_stream import CHUNK_BYTES

    is_line = RateLimit(LINE_SECONDS)
    with open_display() as show:

        def report(done: int, total: int) -> None:
            sent, stored = f"{done / MB:,.1f} of {total / MB:,.1f} MB sent", f"{done:,} of {total:,} pictures stored"
            show(done / max(total, 1), f"{name}: {sent if in_bytes else stored}", is_line())

        yield UploadProgress(report, CHUNK_BYTES if in_bytes else 0)


@contextmanager
def show_source_training() -> "Iterator[Callable[[SourceDetailResponse], None]]":
    """Show the training progress of a source."""
    is_line = RateLimit(LINE_SECONDS)
    with open_display() as show:
        yield lambda source: show(source.progress, f"trained {format_percent(source.progress)}", is_line())


def format_duration(seconds: float) -> str:
    """Format a duration as minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
