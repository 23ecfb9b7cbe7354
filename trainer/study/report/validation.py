"""What a report must be to be shown: every number is one, and what stands side by side has the same length."""

import math
from collections.abc import Iterable
from reprlib import repr as brief

from trainer.study.errors import ReportInvalid
from trainer.study.results import Plot, StudyReport, Table


def check_report(report: StudyReport) -> None:
    """Refuse a report in which a number is missing its value, or a row its column."""
    for finding in report.findings:
        for table in finding.tables:
            check_table(table)
        for plot in finding.plots:
            check_plot(plot)


def check_table(table: Table) -> None:
    """Refuse rows that do not fit their columns, and numbers that are none."""
    if not table.columns:
        raise ReportInvalid(f"the table {brief(table.title)} has no columns")
    for row in table.rows:
        where = f"the row {brief(row[0] if row else None)} of the table {brief(table.title)}"
        if len(row) != len(table.columns):
            raise ReportInvalid(f"{where} has {len(row)} cells under {len(table.columns)} columns")
        _check_numbers((cell for cell in row if isinstance(cell, float)), where)
    if table.spreads and [len(row) for row in table.spreads] != [len(row) for row in table.rows]:
        raise ReportInvalid(f"the table {brief(table.title)} has spreads that do not fit its cells")
    for spreads in table.spreads:
        _check_numbers((each for each in spreads if each is not None), f"a spread of the table {brief(table.title)}")


def check_plot(plot: Plot) -> None:
    """Refuse bands that do not fit their points, and numbers that are none."""
    for series in plot.series:
        where = f"the series {brief(series.name)} of the plot {brief(plot.title)}"
        if {len(series.low), len(series.high)} not in ({0}, {len(series.points)}):
            sizes = f"{len(series.low)} low and {len(series.high)} high for {len(series.points)} points"
            raise ReportInvalid(f"{where} has {sizes}: give both for each point, or none")
        _check_numbers((number for point in series.points for number in point), where)
        _check_numbers((*series.low, *series.high), where)


def _check_numbers(numbers: Iterable[float], where: str) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise ReportInvalid(f"{where} holds {number}, which is no number: leave out what was not measured")
