"""A report is one safe HTML page and one JSON document, and its files are never half written."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.study.fixtures import EXAMPLE_REPORT as REPORT
from tests.trainer.study.report.parse_html import parse_html, text_of
from trainer.study.report.formatting import label_paper
from trainer.study.report.write import report_html, report_json, write_report
from trainer.study.results import (
    Cell,
    ClaimCheck,
    Column,
    ExperimentResult,
    ReportInvalid,
    Series,
    StudyReport,
    Table,
    Unit,
)

ROOT = Path(__file__).parents[4]
HOSTILE = "</style></title><script>window.touched = 1</script><img src=x onerror='touched=1'>\"'&amp;<!--]]>"
TEXTS = st.text(max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
CELLS: st.SearchStrategy[Cell] = st.none() | TEXTS | st.integers() | FINITE
UNITS: tuple[Unit, ...] = get_args(Unit)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.builds(Column, TEXTS, st.sampled_from(UNITS), st.booleans()), min_size=1, max_size=3))
    row = st.tuples(*(CELLS for _ in columns))
    return Table(draw(TEXTS), tuple(columns), tuple(draw(st.lists(row, max_size=3))), draw(TEXTS))


EXPERIMENTS = st.builds(
    ExperimentResult,
    TEXTS,
    TEXTS,
    TEXTS,
    tables=st.lists(tables(), max_size=2).map(tuple),
    plots=st.just(()) | st.just(REPORT.experiments[1].plots),
    claims=st.lists(st.builds(ClaimCheck, TEXTS, TEXTS, st.booleans()), max_size=2).map(tuple),
    notes=st.lists(TEXTS, max_size=2).map(tuple),
)
REPORTS = st.builds(
    StudyReport,
    TEXTS,
    st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    st.lists(EXPERIMENTS, max_size=2).map(tuple),
)


def replace_texts(value: Any, text: str) -> Any:  # Any: a report, and whatever it is made of
    """Return the same report with this text in the place of every text."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(replace_texts(each, text) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.name != "unit"]
        return replace(value, **{name: replace_texts(getattr(value, name), text) for name in names})
    return value


def render(*experiments: ExperimentResult) -> Element:
    return parse_html(report_html(replace(REPORT, experiments=experiments)))


def experiment_with(table: Table) -> ExperimentResult:
    return ExperimentResult("name", "title", "question", tables=(table,))


def with_class(tree: Element, name: str) -> Iterator[Element]:
    return (each for each in tree.iter() if name in each.get("class", "").split())


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    tree = parse_html(report_html(REPORT))

    assert not {each.tag for each in tree.iter()} & {"script", "link", "img", "iframe", "object", "embed", "base"}
    assert not [name for each in tree.iter() for name in each.attrib if name.startswith("on") or name == "style"]
    assert not [name for each in tree.iter() for name in each.attrib if name in ("src", "srcset", "xlink:href")]
    assert {each.attrib["href"][0] for each in tree.iter() if "href" in each.attrib} == {"#"}
    styles = [text_of(each) for each in tree.iter("style")]
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]
    policy = next(each.attrib["content"] for each in tree.iter("meta") if "http-equiv" in each.attrib)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_hostile_texts_stand_in_the_page_as_text() -> None:
    plain = parse_html(report_html(replace_texts(REPORT, "plain")))
    hostile = parse_html(report_html(replace_texts(REPORT, HOSTILE)))

    assert [each.tag for each in hostile.iter()] == [each.tag for each in plain.iter()]
    assert [sorted(each.attrib) for each in hostile.iter()] == [sorted(each.attrib) for each in plain.iter()]
    count = len([each for each in plain.iter() if each.text == "plain"])
    assert count > 50
    assert len([each for each in hostile.iter() if each.text == HOSTILE]) == count


@pytest.mark.parametrize("text", ["\0", "\x1b[2J", "\ud800", "\uffff", "\r\n", ""], ids=ascii)
def test_characters_that_no_page_can_contain_are_replaced(text: str, tmp_path: Path) -> None:
    write_report(replace_texts(REPORT, text), tmp_path)

    page = (tmp_path / "report.html").read_text("utf-8")
    assert not set("\0\x1b\ud800\uffff") & set(page)
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["version"] == 1


@given(REPORTS)
def test_every_report_becomes_a_whole_page(report: StudyReport) -> None:
    tree = parse_html(report_html(report))

    assert len(list(with_class(tree, "experiment"))) == len(report.experiments)
    tables = [table for experiment in report.experiments for table in experiment.tables]
    cells = [cell for box in with_class(tree, "scroll") for cell in box.iter("td")]
    assert len(cells) == sum(len(row) - 1 for table in tables for row in table.rows)


def test_every_claim_is_in_the_summary_and_with_its_experiment() -> None:
    tree = parse_html(report_html(REPORT))

    claims = [claim for experiment in REPORT.experiments for claim in experiment.claims]
    summary = next(with_class(tree, "summary"))
    expected = [f"{'✓ holds' if each.holds else '✗ fails'} {each.text} Measured: {each.measured}" for each in claims]
    assert [text_of(each) for box in with_class(summary, "claims") for each in box] == expected
    sections = with_class(tree, "experiment")
    assert [text_of(each) for part in sections for box in with_class(part, "claims") for each in box] == expected
    assert [each[0].get("class") for box in with_class(summary, "claims") for each in box] == [
        "holds" if each.holds else "fails" for each in claims
    ]
    assert "3 of 4 hold in this run." in text_of(summary)


def test_a_report_without_claims_says_so() -> None:
    assert "This report checks no claims." in text_of(render(ExperimentResult("a", "b", "c")))


def test_the_contents_lead_to_every_finding() -> None:
    tree = parse_html(report_html(REPORT))

    heads = {each.attrib["id"]: text_of(each) for each in tree.iter("h2") if "id" in each.attrib}
    links = [(each.attrib["href"][1:], text_of(each)) for each in next(tree.iter("nav")).iter("a")]
    assert [text for _, text in links] == [experiment.title for experiment in REPORT.experiments]
    assert all(heads[anchor].startswith(text) for anchor, text in links)


def test_findings_of_one_name_have_anchors_of_their_own() -> None:
    tree = render(ExperimentResult("a", "b", "c"), ExperimentResult("a", "b", "c"))

    anchors = [each.attrib["id"] for each in tree.iter() if "id" in each.attrib]
    assert len(set(anchors)) == len(anchors)


def test_the_setting_is_a_table_in_its_order() -> None:
    tree = parse_html(report_html(REPORT))

    rows = [(text_of(row[0]), text_of(row[1])) for row in next(with_class(tree, "setup")).iter("tr")]
    assert rows == list(REPORT.setup)


def test_numbers_stand_by_their_unit_and_what_is_missing_is_a_dash() -> None:
    columns = (Column("way", "text"), Column("here"), Column("gap", "points"), Column("there", from_paper=True))
    tree = render(experiment_with(Table("t", columns, (("deep", 0.862, -0.009, None), ("head", 0.856, 0.0, 0.9)))))

    rows = [[text_of(cell) for cell in row] for body in tree.iter("tbody") for row in body][len(REPORT.setup) :]
    assert rows == [["deep", "86.2 %", "−0.9", "–"], ["head", "85.6 %", "0.0", "90.0 %"]]
    kinds = [each.get("class") for box in with_class(tree, "scroll") for row in box.iter("tr") for each in row]
    assert kinds == ["", "number", "number", "number paper"] * 3


def test_the_papers_columns_are_named_as_the_papers() -> None:
    columns = (
        Column("way", "text"),
        Column("composed"),
        Column("composed", from_paper=True),
        Column("paper", from_paper=True),
    )
    tree = render(experiment_with(Table("t", columns, ())))

    titles = [text_of(each) for head in tree.iter("thead") for each in head.iter("th")]
    assert titles == ["way", "composed", "composed (paper)", "paper"]


def test_every_row_and_column_has_a_header_for_screen_readers() -> None:
    tree = parse_html(report_html(REPORT))

    for box in with_class(tree, "scroll"):
        assert {each.get("scope") for head in box.iter("thead") for each in head.iter("th")} == {"col"}
        assert all([each.get("scope") for each in row][:1] == ["row"] for body in box.iter("tbody") for row in body)
        assert (box.attrib["tabindex"], box.attrib["role"], bool(box.attrib["aria-label"])) == ("0", "region", True)


def test_questions_plots_legends_and_notes_are_all_there() -> None:
    tree = parse_html(report_html(REPORT))

    for experiment, section in zip(REPORT.experiments, with_class(tree, "experiment"), strict=True):
        text = text_of(section)
        assert experiment.question in text
        assert len(list(with_class(section, "plot"))) == len(experiment.plots)
        assert [text_of(each) for box in with_class(section, "legend") for each in box] == [
            label_paper(series.name, series.from_paper) for plot in experiment.plots for series in plot.series
        ]
        assert [text_of(each) for box in with_class(section, "notes") for each in box] == list(experiment.notes)
        assert all(table.note in text and table.title in text for table in experiment.tables)


def test_the_legend_names_a_series_without_points() -> None:
    (plot,) = REPORT.experiments[1].plots
    tree = render(ExperimentResult("a", "b", "c", plots=(replace(plot, series=(*plot.series, Series("heads", ()))),)))

    assert "heads (nothing was measured)" in [text_of(each) for box in with_class(tree, "legend") for each in box]


@given(REPORTS)
def test_the_json_holds_the_whole_report(report: StudyReport) -> None:
    document = json.loads(report_json(report))

    assert document == json.loads(json.dumps(dataclasses.asdict(report)))


def test_the_json_keeps_numbers_as_they_are_and_keys_in_their_order() -> None:
    document = json.loads(report_json(REPORT))

    assert list(document) == ["title", "setup", "experiments", "version"]
    assert list(document["experiments"][0]) == ["name", "title", "question", "tables", "plots", "claims", "notes"]
    assert document["experiments"][0]["tables"][0]["rows"][1][2] == 95.1 / 100
    assert "À-la-carte" in report_json(REPORT)


TABLE = Table("t", (Column("way", "text"), Column("here")), (("deep", 0.5),))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (replace(TABLE, rows=(("deep", math.nan),)), "the row 'deep' of the table 't' holds nan"),
        (replace(TABLE, rows=(("deep", -math.inf),)), "the row 'deep' of the table 't' holds -inf"),
        (replace(TABLE, rows=(("deep",),)), "has 1 cells under 2 columns"),
        (replace(TABLE, rows=((),)), "has 0 cells under 2 columns"),
        (replace(TABLE, columns=(), rows=()), "has no columns"),
    ],
    ids=["nan", "infinite", "short", "empty", "no columns"],
)
def test_a_table_that_cannot_be_shown_is_refused_and_nothing_is_written(
    table: Table, reason: str, tmp_path: Path
) -> None:
    report = replace(REPORT, experiments=(experiment_with(table),))

    for refused in (report_html, report_json):
        with pytest.raises(ReportInvalid, match=reason):
            refused(report)
    with pytest.raises(ReportInvalid, match=reason):
        write_report(report, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_both_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    write_report(REPORT, tmp_path / "new" / "folder")

    assert sorted(each.name for each in (tmp_path / "new" / "folder").iterdir()) == ["report.html", "report.json"]
    assert (tmp_path / "new/folder/report.html").read_bytes() == report_html(REPORT).encode()
    assert (tmp_path / "new/folder/report.json").read_bytes() == report_json(REPORT).encode()


def test_a_failed_write_leaves_the_old_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(REPORT, tmp_path)
    old = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_report(replace(REPORT, title="new"), tmp_path)

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == old


DIE_WRITING = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from tests.trainer.study.fixtures import EXAMPLE_REPORT as REPORT
from trainer.study.report.write import write_report
left = int(sys.argv[2])
def fsync(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = fsync
write_report(replace(REPORT, title="new"), Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("moment", "are_new"),
    [(1, {"report.json": False, "report.html": False}), (3, {"report.json": True, "report.html": False})],
    ids=["in the first file", "in the second file"],
)
def test_a_killed_write_leaves_each_file_old_or_new(moment: int, are_new: dict[str, bool], tmp_path: Path) -> None:
    write_report(REPORT, tmp_path)
    old = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    renewed = replace(REPORT, title="new")
    new = {"report.json": report_json(renewed).encode(), "report.html": report_html(renewed).encode()}

    died = subprocess.run(
        [sys.executable, "-c", DIE_WRITING, str(tmp_path), str(moment)], cwd=ROOT, capture_output=True
    )

    assert died.returncode == -signal.SIGKILL, died.stderr
    for name, is_new in are_new.items():
        assert (tmp_path / name).read_bytes() == (new if is_new else old)[name]
