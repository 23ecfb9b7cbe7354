"""The results of experiments as plain values, for the HTML report and for JSON: tables, plots and claims."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as shorten
from typing import Literal

from trainer.errors import TrainingError

# Shares are from 0 to 1 and shown in per cent; points are differences of shares, shown times 100 with their sign.
Unit = Literal["text", "count", "share", "points", "milliseconds", "bytes", "ratio"]
Cell = str | int | float | None  # None: not measured, or not in the paper


class ReportInvalid(TrainingError):
    """A report cannot be rendered or read; the message names the part that is wrong."""


@dataclass(frozen=True)
class Column:
    """A column of a table; `from_paper` marks the paper's own numbers."""

    title: str
    unit: Unit = "share"
    from_paper: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first column names the row."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""  # how to read it, such as what differs from the paper
    standard_deviations: tuple[tuple[float | None, ...], ...] = ()  # of cells that are means over seeds

    def validate(self) -> None:
        """Raise ReportInvalid unless all rows fit the columns and all numbers are finite."""
        if not self.columns:
            raise ReportInvalid(f"the table {shorten(self.title)} has no columns")
        for row in self.rows:
            where = f"the row {shorten(row[0] if row else None)} of the table {shorten(self.title)}"
            if len(row) != len(self.columns):
                raise ReportInvalid(f"{where} has {len(row)} cells under {len(self.columns)} columns")
            _require_finite((cell for cell in row if isinstance(cell, float)), where)
        deviations = self.standard_deviations
        if deviations and [len(row) for row in deviations] != [len(row) for row in self.rows]:
            raise ReportInvalid(f"the table {shorten(self.title)} has standard deviations that do not fit its cells")
        for row in deviations:
            where = f"a standard deviation of the table {shorten(self.title)}"
            _require_finite((number for number in row if number is not None), where)


@dataclass(frozen=True)
class Series:
    """Points (x, y) of one line, sorted by x; the paper's own lines are drawn dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    from_paper: bool = False
    low: tuple[float, ...] = ()  # lower edge of the band around each point, if the points are means
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Lines over one pair of axes."""

    title: str
    x_label: str
    y_label: str
    unit: Unit  # of y
    series: tuple[Series, ...]
    has_log_x: bool = False

    def validate(self) -> None:
        """Raise ReportInvalid unless all bands fit their points and all numbers are finite."""
        for series in self.series:
            where = f"the series {shorten(series.name)} of the plot {shorten(self.title)}"
            if {len(series.low), len(series.high)} not in ({0}, {len(series.points)}):
                sizes = f"{len(series.low)} low and {len(series.high)} high for {len(series.points)} points"
                raise ReportInvalid(f"{where} has {sizes}: give both for each point, or none")
            _require_finite((number for point in series.points for number in point), where)
            _require_finite((*series.low, *series.high), where)


@dataclass(frozen=True)
class ClaimCheck:
    """A claim of the paper, or a goal of ours, and whether it holds in this run."""

    text: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class ExperimentResult:
    """The outcome of one experiment."""

    name: str
    title: str
    question: str
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    claims: tuple[ClaimCheck, ...] = ()
    notes: tuple[str, ...] = ()  # what differs from the paper, and what was left out


@dataclass(frozen=True)
class StudyReport:
    """The results of all experiments of a run, with its setup."""

    title: str
    setup: tuple[tuple[str, str], ...]  # name and value, in the order to show them
    experiments: tuple[ExperimentResult, ...]
    version: int = 1  # of this format, for readers of the JSON

    def validate(self) -> None:
        """Raise ReportInvalid unless every table and plot can be rendered."""
        for experiment in self.experiments:
            for table in experiment.tables:
                table.validate()
            for plot in experiment.plots:
                plot.validate()


def _require_finite(numbers: Iterable[float], where: str) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise ReportInvalid(f"{where} holds {number}, which is not finite: leave out what was not measured")
