"""Average the reports of one study under several seeds: means with standard deviations, and bands around lines.

The seed determines shards, orders of removal and initial weights, so differences within the deviation may be chance.
The test pictures are the same under every seed; the deviation does not include the choice of test pictures.
"""

from collections.abc import Sequence
from statistics import fmean, stdev

from trainer.study.results import Cell, ClaimCheck, ExperimentResult, Plot, ReportInvalid, Series, StudyReport, Table

SEED = "seed"  # the name of the seed in the setup
BAND_NOTE = "Bands around lines span the minimum and maximum over all seeds."


def average_seeds(reports: Sequence[StudyReport]) -> StudyReport:
    """Return one report of several that differ in their seed only."""
    if len(reports) == 1:
        return reports[0]
    first = reports[0]
    seeds = ", ".join(value for report in reports for name, value in report.setup if name == SEED)
    return StudyReport(
        title=first.title,
        setup=tuple((name, seeds if name == SEED else value) for name, value in first.setup),
        experiments=tuple(
            _average_result(per_seed) for per_seed in zip(*(report.experiments for report in reports), strict=True)
        ),
    )


def _average_result(per_seed: Sequence[ExperimentResult]) -> ExperimentResult:
    first = per_seed[0]
    for other in per_seed[1:]:
        if _shape(other) != _shape(first):
            raise ReportInvalid(
                f"{first.name} has different rows or lines under different seeds: run it with one seed at a time"
            )
    has_bands = any(not series.from_paper for plot in first.plots for series in plot.series)
    return ExperimentResult(
        name=first.name,
        title=first.title,
        question=first.question,
        tables=tuple(_average_table(each) for each in zip(*(result.tables for result in per_seed), strict=True)),
        plots=tuple(_average_plot(each) for each in zip(*(result.plots for result in per_seed), strict=True)),
        claims=tuple(_combine_claims(each) for each in zip(*(result.claims for result in per_seed), strict=True)),
        notes=(*first.notes, *([BAND_NOTE] * has_bands)),
    )


def _shape(result: ExperimentResult) -> tuple[object, ...]:
    """Return what must be the same under every seed: all but the numbers."""
    return (
        [(table.title, table.columns, [row[:1] for row in table.rows]) for table in result.tables],
        [[(series.name, [x for x, _ in series.points]) for series in plot.series] for plot in result.plots],
        [claim.text for claim in result.claims],
    )


def _average_table(per_seed: Sequence[Table]) -> Table:
    first = per_seed[0]
    cells = [list(zip(*rows, strict=True)) for rows in zip(*(table.rows for table in per_seed), strict=True)]
    if all(table.rows == first.rows for table in per_seed):
        return first
    return Table(
        title=first.title,
        columns=first.columns,
        rows=tuple(tuple(map(_mean_cell, row)) for row in cells),
        note=f"{first.note} Means of {len(per_seed)} seeds, ± their standard deviation.".strip(),
        standard_deviations=tuple(tuple(map(_deviation, row)) for row in cells),
    )


def _mean_cell(per_seed: Sequence[Cell]) -> Cell:
    numbers = _as_numbers(per_seed)
    if numbers is not None:
        return per_seed[0] if len(set(numbers)) == 1 else fmean(numbers)
    return per_seed[0] if len(set(per_seed)) == 1 else None


def _deviation(per_seed: Sequence[Cell]) -> float | None:
    """Return None where all seeds give the same number, as with the paper's own numbers."""
    numbers = _as_numbers(per_seed)
    return None if numbers is None or len(set(numbers)) == 1 else stdev(numbers)


def _as_numbers(per_seed: Sequence[Cell]) -> list[float] | None:
    numbers = [cell for cell in per_seed if isinstance(cell, int | float)]
    return numbers if len(numbers) == len(per_seed) else None


def _average_plot(per_seed: Sequence[Plot]) -> Plot:
    first = per_seed[0]
    series = tuple(_average_series(each) for each in zip(*(plot.series for plot in per_seed), strict=True))
    return Plot(first.title, first.x_label, first.y_label, first.unit, series, first.has_log_x)


def _average_series(per_seed: Sequence[Series]) -> Series:
    """Return the means, in a band from the minimum to the maximum over all seeds."""
    first = per_seed[0]
    if first.from_paper:
        return first
    heights = list(zip(*([y for _, y in series.points] for series in per_seed), strict=True))
    lows = [series.low or [y for _, y in series.points] for series in per_seed]
    highs = [series.high or [y for _, y in series.points] for series in per_seed]
    return Series(
        first.name,
        tuple((x, fmean(ys)) for (x, _), ys in zip(first.points, heights, strict=True)),
        low=tuple(map(min, zip(*lows, strict=True))),
        high=tuple(map(max, zip(*highs, strict=True))),
    )


def _combine_claims(per_seed: Sequence[ClaimCheck]) -> ClaimCheck:
    """A claim holds if it holds under every seed."""
    count = sum(claim.holds for claim in per_seed)
    each = " | ".join(claim.measured for claim in per_seed)
    return ClaimCheck(per_seed[0].text, f"holds under {count} of {len(per_seed)} seeds: {each}", count == len(per_seed))
