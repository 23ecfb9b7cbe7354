"""Numbers are formatted by their unit."""

import pytest

from trainer.study.report.formatting import format_cell, label_paper
from trainer.study.results import Cell, Unit


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (None, "share", "–"),
        ("paragon", "share", "paragon"),
        (0.862, "share", "86.2 %"),
        (1, "share", "100.0 %"),
        (0.8625, "share", "86.2 %"),
        (0.012, "points", "+1.2"),
        (-0.046, "points", "−4.6"),
        (0.0, "points", "0.0"),
        (-1e-17, "points", "0.0"),
        (2652, "count", "2,652"),
        (132.6, "count", "133"),
        (2.5, "count", "2.50"),
        (2652.0, "count", "2,652"),
        (1e-7, "share", "0.0 %"),
        (12.34, "milliseconds", "12.3 ms"),
        (12_340.0, "milliseconds", "12.3 s"),
        (0, "bytes", "0 B"),
        (5, "bytes", "5 B"),
        (79_200, "bytes", "79.2 kB"),
        (22_100_000, "bytes", "22.1 MB"),
        (1.046, "ratio", "1.05 ×"),
        (-3, "count", "−3"),
        (0, "count", "0"),
        (10**40, "count", "1.00e+40"),
        (1e-12, "ratio", "1e-12 ×"),
    ],
)
def test_a_cell_is_formatted_by_its_unit(cell: Cell, unit: Unit, text: str) -> None:
    assert format_cell(cell, unit).replace("\N{NO-BREAK SPACE}", " ") == text


def test_no_line_break_separates_a_number_from_its_unit() -> None:
    assert " " not in format_cell(0.5, "share")


def test_a_name_is_marked_as_the_papers_once() -> None:
    assert label_paper("composed", from_paper=True) == "composed (paper)"
    assert label_paper("Paper, Flowers", from_paper=True) == "Paper, Flowers"
    assert label_paper("composed", from_paper=False) == "composed"
