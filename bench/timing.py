"""Timing of functions in turns: the best run of each counts, with its peak memory.

Machines are noisy, so only ratios between contenders of the same run are meaningful.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Timing:
    """The seconds of a contender's best run, and the peak memory over all its runs."""

    seconds: float
    peak_mb: float | None  # host memory above the level before the run; None if the system does not report it


def measure(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    warmups: int = 1,
    wait: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Run every contender once per round, after uncounted warm-ups; `wait` waits for the device."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    peaks: dict[str, list[float]] = {name: [] for name in contenders}
    columns = (SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("measuring", total=len(contenders) * (rounds + warmups))
        for turn in range(rounds + warmups):
            for name, run in contenders.items():
                progress.update(task, description=name)
                base_mb = _reset_peak()
                start = time.perf_counter()
                run()
                wait()
                if turn >= warmups:
                    seconds[name].append(time.perf_counter() - start)
                if base_mb is not None:
                    peaks[name].append(_read_status_mb("VmHWM") - base_mb)
                progress.advance(task)
    return {name: Timing(min(times), max(peaks[name]) if peaks[name] else None) for name, times in seconds.items()}


def _reset_peak() -> float | None:
    """Reset the kernel's peak counter of this process; return its current memory in MB."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return None
    return _read_status_mb("VmRSS")


def _read_status_mb(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
