"""Reports of one study under several seeds as one: means in the place of figures, and beside them how far they spread.

Shards, orders and starts are drawn by the seed, so what is within the spread may be chance; the pictures that are asked
about are the same under every seed, and what they leave to chance is not in it.
"""

from collections.abc import Sequence
from statistics import fmean, stdev

from trainer.study.results import Cell, ClaimCheck, ExperimentResult, Plot, ReportInvalid, Series, StudyReport, Table

SEED = "seed"  # the line of the setting that tells it
BANDS = "Bands around lines reach from the least to the most under any seed."


def average_seeds(reports: Sequence[StudyReport]) -> StudyReport:
    """The one report of several that differ in their seed alone."""
    if len(reports) == 1:
        return reports[0]
    first = reports[0]
    seeds = ", ".join(value for report in reports for name, value in report.setup if name == SEED)
    return StudyReport(
        title=first.title,
        setup=tuple((name, seeds if name == SEED else value) for name, value in first.setup),
        experiments=tuple(_finding(same) for same in zip(*(report.experiments for report in reports), strict=True)),
    )


def _finding(same: Sequence[ExperimentResult]) -> ExperimentResult:
    first = same[0]
    for other in same[1:]:
        if _shape(other) != _shape(first):
            raise ReportInvalid(
                f"{first.name} has other lines under one seed than under another: study them one by one"
            )
    has_bands = any(not series.from_paper for plot in first.plots for series in plot.series)
    return ExperimentResult(
        name=first.name,
        title=first.title,
        question=first.question,
        tables=tuple(_table(each) for each in zip(*(finding.tables for finding in same), strict=True)),
        plots=tuple(_plot(each) for each in zip(*(finding.plots for finding in same), strict=True)),
        claims=tuple(_claim(each) for each in zip(*(finding.claims for finding in same), strict=True)),
        notes=(*first.notes, *([BANDS] * has_bands)),
    )


def _shape(finding: ExperimentResult) -> tuple[object, ...]:
    """What must be the same under every seed: what lines and rows there are, whatever their numbers."""
    return (
        [(table.title, table.columns, [row[:1] for row in table.rows]) for table in finding.tables],
        [[(series.name, [x for x, _ in series.points]) for series in plot.series] for plot in finding.plots],
        [claim.text for claim in finding.claims],
    )


def _table(same: Sequence[Table]) -> Table:
    first = same[0]
    cells = [list(zip(*rows, strict=True)) for rows in zip(*(table.rows for table in same), strict=True)]
    if all(table.rows == first.rows for table in same):
        return first
    return Table(
        title=first.title,
        columns=first.columns,
        rows=tuple(tuple(map(_mean, row)) for row in cells),
        note=f"{first.note} Means of {len(same)} seeds, ± their standard deviation.".strip(),
        standard_deviations=tuple(tuple(map(_spread, row)) for row in cells),
    )


def _mean(same: Sequence[Cell]) -> Cell:
    numbers = _numbers(same)
    if numbers is not None:
        return same[0] if len(set(numbers)) == 1 else fmean(numbers)
    return same[0] if len(set(same)) == 1 else None


def _spread(same: Sequence[Cell]) -> float | None:
    """None where every seed gives the same, as with the paper's own numbers."""
    numbers = _numbers(same)
    return None if numbers is None or len(set(numbers)) == 1 else stdev(numbers)


def _numbers(same: Sequence[Cell]) -> list[float] | None:
    numbers = [cell for cell in same if isinstance(cell, int | float)]
    return numbers if len(numbers) == len(same) else None


def _plot(same: Sequence[Plot]) -> Plot:
    first = same[0]
    series = tuple(_series(each) for each in zip(*(plot.series for plot in same), strict=True))
    return Plot(first.title, first.x_label, first.y_label, first.unit, series, first.has_log_x)


def _series(same: Sequence[Series]) -> Series:
    """The means, in a band from the least to the most of any seed."""
    first = same[0]
    if first.from_paper:
        return first
    heights = list(zip(*([y for _, y in series.points] for series in same), strict=True))
    lows = [series.low or [y for _, y in series.points] for series in same]
    highs = [series.high or [y for _, y in series.points] for series in same]
    return Series(
        first.name,
        tuple((x, fmean(ys)) for (x, _), ys in zip(first.points, heights, strict=True)),
        low=tuple(map(min, zip(*lows, strict=True))),
        high=tuple(map(max, zip(*highs, strict=True))),
    )


def _claim(same: Sequence[ClaimCheck]) -> ClaimCheck:
    """It holds if it does under every seed."""
    held = sum(claim.holds for claim in same)
    each = " | ".join(claim.measured for claim in same)
    return ClaimCheck(
        same[0].text, f"under {held} of {len(same)} seeds, and should under all: {each}", held == len(same)
    )
