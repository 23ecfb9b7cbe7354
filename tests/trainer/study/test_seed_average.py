"""Reports under several seeds as one: means, standard_deviations and bands, and claims that hold under all of them."""

from dataclasses import replace

import pytest

from tests.trainer.study.report.parse_html import parse_html, text_of
from trainer.study.report.write import report_html, report_json
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, ReportInvalid, Series, StudyReport, Table
from trainer.study.seed_average import average_seeds

COLUMNS = (Column("shards", "text"), Column("composed"), Column("paper", from_paper=True), Column("gain", "points"))


def make_report(
    seed: int, share: float, gain: float | None = 0.25, holds: bool = True, band: float = 0.0
) -> StudyReport:
    table = Table("Accuracy", COLUMNS, (("2", share, 0.875, gain),), "Of one data set.")
    ours = Series("ours", ((2.0, share),), low=(share - band,) * bool(band), high=(share + band,) * bool(band))
    plot = Plot("Accuracy", "shards", "accuracy", "share", (ours, Series("paper", ((2.0, 0.875),), from_paper=True)))
    claim = ClaimCheck("It is good.", f"{share}", holds)
    experiment = ExperimentResult("shards", "Shards", "How good?", (table,), (plot,), (claim,), ("small",))
    return StudyReport("On flowers", (("data", "flowers"), ("seed", str(seed))), (experiment,))


def test_a_single_report_is_unchanged() -> None:
    alone = make_report(0, 0.5)

    assert average_seeds([alone]) is alone


def test_numbers_become_means_with_standard_deviations() -> None:
    merged = average_seeds([make_report(0, 0.25), make_report(1, 0.5), make_report(2, 0.75)])

    (table,) = merged.experiments[0].tables
    assert table.rows == (("2", 0.5, 0.875, 0.25),)
    assert table.standard_deviations == ((None, 0.25, None, None),)  # None: the same under every seed
    assert table.note == "Of one data set. Means of 3 seeds, ± their standard deviation."
    assert merged.setup == (("data", "flowers"), ("seed", "0, 1, 2"))
    assert merged.experiments[0].notes == ("small", "Bands around lines span the minimum and maximum over all seeds.")


def test_a_number_missing_under_one_seed_has_no_mean() -> None:
    merged = average_seeds([make_report(0, 0.25), make_report(1, 0.25, gain=None)])

    assert merged.experiments[0].tables[0].rows == (("2", 0.25, 0.875, None),)


def test_lines_become_bands_that_include_every_seed_and_its_own_band() -> None:
    plain, banded = ([make_report(0, 0.25, band=band), make_report(1, 0.75, band=band)] for band in (0.0, 0.125))

    ours, papers = average_seeds(plain).experiments[0].plots[0].series
    wide, _ = average_seeds(banded).experiments[0].plots[0].series
    assert ours == Series("ours", ((2.0, 0.5),), low=(0.25,), high=(0.75,))
    assert papers == Series("paper", ((2.0, 0.875),), from_paper=True)
    assert (wide.low, wide.high) == ((0.125,), (0.875,))


def test_a_table_that_is_equal_under_all_seeds_is_unchanged() -> None:
    alone = make_report(0, 0.25)

    assert average_seeds([alone, make_report(1, 0.25)]).experiments[0].tables == alone.experiments[0].tables


def test_seeds_with_different_rows_are_refused_by_the_name_of_the_experiment() -> None:
    first, second = make_report(0, 0.25), make_report(1, 0.5)
    (experiment,) = second.experiments
    (table,) = experiment.tables
    more = replace(experiment, tables=(replace(table, rows=(("3", *table.rows[0][1:]),)),))

    with pytest.raises(ReportInvalid, match="shards has different rows or lines under different seeds"):
        average_seeds([first, replace(second, experiments=(more,))])


@pytest.mark.parametrize(("second", "holds", "count"), [(True, True, 2), (False, False, 1)])
def test_a_claim_holds_if_it_holds_under_every_seed(second: bool, holds: bool, count: int) -> None:
    (claim,) = average_seeds([make_report(0, 0.25), make_report(1, 0.75, holds=second)]).experiments[0].claims

    assert claim == ClaimCheck("It is good.", f"holds under {count} of 2 seeds: 0.25 | 0.75", holds)


def test_the_page_and_the_json_have_the_standard_deviation() -> None:
    merged = average_seeds([make_report(0, 0.25), make_report(1, 0.5), make_report(2, 0.75)])

    assert '"standard_deviations"' in report_json(merged)
    cells = [text_of(cell) for cell in parse_html(report_html(merged)).iter("td")]
    assert "50.0 % ± 25.0" in cells


@pytest.mark.parametrize(
    "standard_deviations", [((0.1,),), ((None, float("nan"), None, None),)], ids=["too few", "not finite"]
)
def test_standard_deviations_that_do_not_fit_are_refused(
    standard_deviations: tuple[tuple[float | None, ...], ...],
) -> None:
    table = Table("Accuracy", COLUMNS, (("2", 0.5, 0.875, 0.25),), standard_deviations=standard_deviations)
    experiment = ExperimentResult("shards", "Shards", "How good?", (table,))

    with pytest.raises(ReportInvalid, match="standard deviation"):
        report_json(StudyReport("On flowers", (), (experiment,)))
