"""Progress of training on stderr: a bar on a terminal, else occasional lines."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from alacarte.cli.output import print_message
from trainer.optimize import EpochProgress, ReportProgress
from trainer.study.eta import EtaEstimator
from trainer.study.runner import ProgressCallback
from trainer.study.training_spec import TrainingSpec

MAX_LINES = 10  # for one prompt
STUDY_LINE_SECONDS = 15.0  # between two lines about a study

CallbackFor = Callable[[str], ReportProgress]  # the name of a part -> the callback of its training


@contextmanager
def show_training(samples: Mapping[str, int], epochs: int) -> Iterator[CallbackFor]:
    """Show the training of named parts with these numbers of samples, one after the other."""
    if sys.stderr.isatty():
        with _bars() as bars:
            yield _report_by_bar(bars, samples, epochs)
    else:
        yield _report_by_lines(samples, epochs)


def _bars() -> Bars:
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("epoch {task.fields[epoch]}, loss {task.fields[loss]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True, markup=False),
    )


def _report_by_bar(bars: Bars, samples: Mapping[str, int], epochs: int) -> CallbackFor:
    task = bars.add_task("", total=epochs * sum(samples.values()), epoch="-", loss="-")

    def callback_for(name: str) -> ReportProgress:
        title = f"{name} ({list(samples).index(name) + 1} of {len(samples)})"
        bars.update(task, description=title, epoch=f"0/{epochs}", loss="-")

        def report(progress: EpochProgress) -> None:
            epoch = f"{progress.epoch}/{progress.epochs}"
            bars.update(task, advance=samples[name], epoch=epoch, loss=f"{progress.loss:.3f}")

        return report

    return callback_for


def _report_by_lines(samples: Mapping[str, int], epochs: int) -> CallbackFor:
    start, total = time.monotonic(), epochs * sum(samples.values())
    done = 0  # samples times epochs, which cost about the same each

    def callback_for(name: str) -> ReportProgress:
        def report(progress: EpochProgress) -> None:
            nonlocal done
            done += samples[name]
            if progress.epoch % -(-epochs // MAX_LINES) == 0 or progress.epoch == epochs:
                left = (time.monotonic() - start) / done * (total - done)
                place = f"epoch {progress.epoch} of {epochs}"
                print_message(f"{name}: {place}, loss {progress.loss:.3f}, {format_duration(left)} left")

        return report

    return callback_for


def format_duration(seconds: float) -> str:
    """Format a duration as minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def show_study() -> Iterator[ProgressCallback]:
    """Show the progress of all trainings of a study."""
    if sys.stderr.isatty():
        bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %, {task.fields[left]} left"),
            console=Console(stderr=True, markup=False),
        )
        with bars:
            task = bars.add_task("training", total=1.0, left="-")

            def show(training: TrainingSpec, progress: EpochProgress, eta: EtaEstimator) -> None:
                left = eta.seconds_left()
                bars.update(
                    task,
                    description=_describe(training, progress),
                    completed=eta.fraction_done,
                    left="-" if left is None else format_duration(left),
                )

            yield show
        return
    printed_at = time.monotonic()
    lock = threading.Lock()

    def print_line(training: TrainingSpec, progress: EpochProgress, eta: EtaEstimator) -> None:
        nonlocal printed_at
        with lock:
            if time.monotonic() - printed_at < STUDY_LINE_SECONDS:
                return
            printed_at = time.monotonic()
        left = eta.seconds_left()
        rest = "" if left is None else f", {format_duration(left)} left"
        print_message(f"{100 * eta.fraction_done:.0f} % trained{rest}; now {_describe(training, progress)}")

    yield print_line


def _describe(training: TrainingSpec, progress: EpochProgress) -> str:
    variant = "" if training.recipe.variant == "deep" else f", {training.recipe.variant}"
    return (
        f"{training.method}{variant} on {len(training.samples):,} pictures, "
        f"epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.3f}"
    )
