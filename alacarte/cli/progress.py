"""How far training is, on stderr: a bar where someone watches, a line now and then where it is kept."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from alacarte.cli.output import print_message
from trainer.optimize import ReportProgress, TrainingProgress
from trainer.study.eta import EtaEstimator
from trainer.study.runner import ProgressCallback
from trainer.study.training_spec import TrainingSpec

LINES = 10  # for one prompt, at most
STUDY_LINE_SECONDS = 15.0  # from one line on a study to the next

ReportOf = Callable[[str], ReportProgress]  # the name of a part -> what its training reports to


@contextmanager
def watch(samples: Mapping[str, int], epochs: int) -> Iterator[ReportOf]:
    """Reports for parts with so many samples each, which are trained one after the other."""
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


def _report_by_bar(bars: Bars, samples: Mapping[str, int], epochs: int) -> ReportOf:
    task = bars.add_task("", total=epochs * sum(samples.values()), epoch="-", loss="-")

    def report_of(name: str) -> ReportProgress:
        title = f"{name} ({list(samples).index(name) + 1} of {len(samples)})"
        bars.update(task, description=title, epoch=f"0/{epochs}", loss="-")

        def report(progress: TrainingProgress) -> None:
            epoch = f"{progress.epoch}/{progress.epochs}"
            bars.update(task, advance=samples[name], epoch=epoch, loss=f"{progress.loss:.3f}")

        return report

    return report_of


def _report_by_lines(samples: Mapping[str, int], epochs: int) -> ReportOf:
    start, total = time.monotonic(), epochs * sum(samples.values())
    done = 0  # epochs of samples, which cost about the same each

    def report_of(name: str) -> ReportProgress:
        def report(progress: TrainingProgress) -> None:
            nonlocal done
            done += samples[name]
            if progress.epoch % -(-epochs // LINES) == 0 or progress.epoch == epochs:
                left = (time.monotonic() - start) / done * (total - done)
                place = f"epoch {progress.epoch} of {epochs}"
                print_message(f"{name}: {place}, loss {progress.loss:.3f}, {as_clock(left)} left")

        return report

    return report_of


def as_clock(seconds: float) -> str:
    """A duration for a person to read: minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def watch_study() -> Iterator[ProgressCallback]:
    """How far a study's trainings are, in all."""
    if sys.stderr.isatty():
        bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %, {task.fields[left]} left"),
            console=Console(stderr=True, markup=False),
        )
        with bars:
            task = bars.add_task("training", total=1.0, left="-")

            def show(training: TrainingSpec, progress: TrainingProgress, eta: EtaEstimator) -> None:
                left = eta.seconds_left()
                bars.update(
                    task,
                    description=_of(training, progress),
                    completed=eta.fraction_done,
                    left="-" if left is None else as_clock(left),
                )

            yield show
        return
    said = time.monotonic()
    lock = threading.Lock()

    def tell(training: TrainingSpec, progress: TrainingProgress, eta: EtaEstimator) -> None:
        nonlocal said
        with lock:
            if time.monotonic() - said < STUDY_LINE_SECONDS:
                return
            said = time.monotonic()
        left = eta.seconds_left()
        rest = "" if left is None else f", {as_clock(left)} left"
        print_message(f"{100 * eta.fraction_done:.0f} % trained{rest}; now {_of(training, progress)}")

    yield tell


def _of(training: TrainingSpec, progress: TrainingProgress) -> str:
    variant = "" if training.recipe.variant == "deep" else f", {training.recipe.variant}"
    return (
        f"{training.method}{variant} on {len(training.samples):,} pictures, "
        f"epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.3f}"
    )
