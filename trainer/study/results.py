"""What an experiment has found, as plain values: tables, plots and claims, for the report and for JSON alike."""

from dataclasses import dataclass
from typing import Literal

# Shares are from 0 to 1 and shown in per cent; points are differences of shares, shown times 100 with their sign.
Unit = Literal["text", "count", "share", "points", "seconds", "milliseconds", "bytes", "ratio"]
Cell = str | int | float | None  # None: not measured, or not in the paper


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, what its numbers are, and whether they are the paper's own."""

    title: str
    unit: Unit = "share"
    is_papers: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first column names the row."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""  # what to know when reading it, such as what differs from the paper's
    spreads: tuple[tuple[float | None, ...], ...] = ()  # of each cell, if it is a mean of several; None: of none


@dataclass(frozen=True)
class Series:
    """Points (x, y) that belong together, sorted by x; the paper's own are drawn otherwise."""

    name: str
    points: tuple[tuple[float, float], ...]
    is_papers: bool = False
    low: tuple[float, ...] = ()  # of each point, if it is a mean of several
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Lines over one pair of axes."""

    title: str
    x: str  # what is along the axis
    y: str
    unit: Unit  # of y
    series: tuple[Series, ...]
    has_log_x: bool = False


@dataclass(frozen=True)
class Claim:
    """Something that the paper says or that we set out to reach, and whether it holds in this run."""

    text: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Finding:
    """The outcome of one experiment."""

    name: str
    title: str
    question: str
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    claims: tuple[Claim, ...] = ()
    remarks: tuple[str, ...] = ()  # what differs from the paper, and what was cut


@dataclass(frozen=True)
class StudyReport:
    """All findings of a run, with what they were made from."""

    title: str
    setting: tuple[tuple[str, str], ...]  # name and value, in the order to show them
    findings: tuple[Finding, ...]
    version: int = 1  # of this form, for readers of the JSON
