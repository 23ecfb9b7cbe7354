"""How the bench measures: contenders take turns, the best run of each counts, and peak memory stands beside.

The machines are noisy, so only ratios between contenders of one run mean anything.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn
from rich.table import Table

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Measured:
    """The best of a contender's runs, and the most memory that one of them took."""

    seconds: float
    peak_mb: float | None  # of the host, above what the process held before; None where the system does not tell


def measure(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    warmups: int = 1,
    wait: Callable[[], None] = lambda: None,
) -> dict[str, Measured]:
    """Run every contender once a round, in turn, after warm-ups that do not count; `wait` is for the device."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    peaks: dict[str, list[float]] = {name: [] for name in contenders}
    with Progress(SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn(), console=_stderr()) as shown:
        task = shown.add_task("measuring", total=len(contenders) * (rounds + warmups))
        for turn in range(rounds + warmups):
            for name, run in contenders.items():
                shown.update(task, description=name)
                held = _reset_peak()
                start = time.perf_counter()
                run()
                wait()
                if turn >= warmups:
                    seconds[name].append(time.perf_counter() - start)
                if held is not None:
                    peaks[name].append(_status("VmHWM") - held)
                shown.advance(task)
    return {name: Measured(min(times), max(peaks[name]) if peaks[name] else None) for name, times in seconds.items()}


def show(
    title: str, rows: list[dict[str, float | int | str | None]], summary: dict[str, object], as_json: bool
) -> None:
    """Print the rows as a table, or everything as one JSON document."""
    if as_json:
        print(json.dumps({**summary, "rows": rows}, indent=2))
        return
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console()
    console.print(table)
    for name, value in summary.items():
        console.print(f"{name}: {_cell(value)}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _stderr() -> Console:
    return Console(stderr=True)


def _reset_peak() -> float | None:
    """Let the kernel forget the process's peak; what it holds now, in MB."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _status(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
