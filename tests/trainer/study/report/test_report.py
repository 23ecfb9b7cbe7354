"""A report is one safe page and one JSON text, and its files are never half written."""

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
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.study.fixtures import example_report
from tests.trainer.study.report.parse_svg import text_of, tree_of
from trainer.study.report.write import report_from_json, report_html, report_json, write_report
from trainer.study.results import Cell, ClaimCheck, Column, ExperimentResult, ReportInvalid, StudyReport, Table, Unit

ROOT = Path(__file__).parents[4]
REPORT = example_report()
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


FINDINGS = st.builds(
    ExperimentResult,
    TEXTS,
    TEXTS,
    TEXTS,
    tables=st.lists(tables(), max_size=2).map(tuple),
    plots=st.sampled_from([plot for finding in REPORT.experiments for plot in finding.plots]).map(lambda plot: (plot,)),
    claims=st.lists(st.builds(ClaimCheck, TEXTS, TEXTS, st.booleans()), max_size=2).map(tuple),
    notes=st.lists(TEXTS, max_size=2).map(tuple),
)
REPORTS = st.builds(
    StudyReport,
    TEXTS,
    st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    st.lists(FINDINGS, max_size=2).map(tuple),
)


def with_texts(value: Any, text: str) -> Any:  # Any: a report, and whatever it is made of
    """The same with this text wherever a text of any kind may stand."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_texts(each, text) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.name != "unit"]
        return replace(value, **{name: with_texts(getattr(value, name), text) for name in names})
    return value


def page_of(*experiments: ExperimentResult) -> Element:
    return tree_of(report_html(replace(REPORT, experiments=experiments)))


def finding_of(table: Table) -> ExperimentResult:
    return ExperimentResult("name", "title", "question", tables=(table,))


def of_class(tree: Element, name: str) -> Iterator[Element]:
    return (each for each in tree.iter() if name in each.get("class", "").split())


def words(element: Element) -> str:
    return " ".join(text_of(element).split())


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    tree = tree_of(report_html(REPORT))

    assert not {each.tag for each in tree.iter()} & {"script", "link", "img", "iframe", "object", "embed", "base"}
    assert not [name for each in tree.iter() for name in each.attrib if name.startswith("on") or name == "style"]
    assert not [name for each in tree.iter() for name in each.attrib if name in ("src", "srcset", "xlink:href")]
    assert {each.attrib["href"][0] for each in tree.iter("a")} == {"#"}
    styles = [text_of(each) for each in tree.iter("style")]
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]
    policy = next(each.attrib["content"] for each in tree.iter("meta") if "http-equiv" in each.attrib)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_hostile_texts_stand_in_the_page_as_text() -> None:
    plain, hostile = (
        tree_of(report_html(with_texts(REPORT, "plain"))),
        tree_of(report_html(with_texts(REPORT, HOSTILE))),
    )

    assert [each.tag for each in hostile.iter()] == [each.tag for each in plain.iter()]
    assert [sorted(each.attrib) for each in hostile.iter()] == [sorted(each.attrib) for each in plain.iter()]
    named = [each for each in plain.iter() if each.text == "plain"]
    assert len(named) > 50
    assert (
        len([each for each in hostile.iter() if each.text == HOSTILE]) >= len(named) - 30
    )  # but for what is cut to fit


@pytest.mark.parametrize("text", ["\0", "\x1b[2J", "\ud800", "\uffff", "\r\n", ""], ids=ascii)
def test_a_text_that_no_page_can_carry_is_carried_as_well_as_can_be(text: str, tmp_path: Path) -> None:
    write_report(with_texts(REPORT, text), tmp_path)

    page = (tmp_path / "report.html").read_text("utf-8")
    assert not set("\0\x1b\ud800\uffff") & set(page)
    assert report_from_json((tmp_path / "report.json").read_text("utf-8")).version == 1


@given(REPORTS)
def test_every_report_becomes_a_whole_page(report: StudyReport) -> None:
    tree = tree_of(report_html(report))

    assert len(list(of_class(tree, "finding"))) == len(report.experiments)
    assert sum(len(row) - 1 for finding in report.experiments for table in finding.tables for row in table.rows) == sum(
        1 for box in of_class(tree, "scroll") for _ in box.iter("td")
    )


def test_every_claim_stands_on_top_and_with_its_finding_and_is_judged_in_words() -> None:
    tree = tree_of(report_html(REPORT))

    claims = [claim for finding in REPORT.experiments for claim in finding.claims]
    summary = next(of_class(tree, "summary"))
    judged = [f"{'✓ holds' if each.holds else '✗ fails'}{each.text}Measured: {each.measured}" for each in claims]
    assert [text_of(each) for box in of_class(summary, "claims") for each in box] == judged
    within = [text_of(each) for part in of_class(tree, "finding") for box in of_class(part, "claims") for each in box]
    assert within == judged
    assert [each[0].get("class") for box in of_class(summary, "claims") for each in box] == [
        "holds" if each.holds else "fails" for each in claims
    ]
    assert "Of the claims, 3 of 4 hold." in words(summary)


def test_a_report_without_claims_says_so() -> None:
    assert "This report makes no claims." in words(page_of(ExperimentResult("a", "b", "c")))


def test_the_contents_lead_to_every_finding() -> None:
    tree = tree_of(report_html(REPORT))

    heads = {each.attrib["id"]: words(each) for each in tree.iter("h2") if "id" in each.attrib}
    links = [(each.attrib["href"][1:], words(each)) for each in next(tree.iter("nav")).iter("a")]
    assert [text for _, text in links] == [finding.title for finding in REPORT.experiments]
    assert all(heads[anchor].startswith(text) for anchor, text in links)


def test_findings_of_one_name_have_anchors_of_their_own() -> None:
    tree = page_of(ExperimentResult("a", "b", "c"), ExperimentResult("a", "b", "c"))

    anchors = [each.attrib["id"] for each in tree.iter() if "id" in each.attrib]
    assert len(set(anchors)) == len(anchors)


def test_the_setting_is_a_table_in_its_order() -> None:
    tree = tree_of(report_html(REPORT))

    rows = [(text_of(row[0]), text_of(row[1])) for row in next(of_class(tree, "setting")).iter("tr")]
    assert rows == list(REPORT.setup)


def test_numbers_stand_by_their_unit_and_what_is_missing_is_a_dash() -> None:
    columns = (Column("way", "text"), Column("here"), Column("gap", "points"), Column("there", from_paper=True))
    tree = page_of(finding_of(Table("t", columns, (("deep", 0.862, -0.009, None), ("head", 0.856, 0.0, 0.9)))))

    rows = [[words(cell) for cell in row] for body in tree.iter("tbody") for row in body][len(REPORT.setup) :]
    assert rows == [["deep", "86.2 %", "−0.9", "–"], ["head", "85.6 %", "0.0", "90.0 %"]]
    kinds = [each.get("class") for box in of_class(tree, "scroll") for row in box.iter("tr") for each in row]
    assert kinds == [None, "number", "number", "number theirs"] * 3


def test_the_papers_columns_are_named_as_the_papers() -> None:
    columns = (
        Column("way", "text"),
        Column("composed"),
        Column("composed", from_paper=True),
        Column("paper", from_paper=True),
    )
    tree = page_of(finding_of(Table("t", columns, ())))

    titles = [text_of(each) for head in tree.iter("thead") for each in head.iter("th")]
    assert titles == ["way", "composed", "composed (paper)", "paper"]


def test_every_row_and_column_has_a_header_for_screen_readers() -> None:
    tree = tree_of(report_html(REPORT))

    for box in of_class(tree, "scroll"):
        assert {each.get("scope") for head in box.iter("thead") for each in head.iter("th")} == {"col"}
        assert all([each.get("scope") for each in row][:1] == ["row"] for body in box.iter("tbody") for row in body)
        assert (box.attrib["tabindex"], box.attrib["role"], bool(box.attrib["aria-label"])) == ("0", "region", True)


def test_questions_plots_notes_and_remarks_are_all_there() -> None:
    tree = tree_of(report_html(REPORT))

    for finding, part in zip(REPORT.experiments, of_class(tree, "finding"), strict=True):
        said = words(part)
        assert finding.question in said
        assert len(list(part.iter("svg"))) == len(finding.plots)
        assert [text_of(each) for box in of_class(part, "notes") for each in box] == list(finding.notes)
        assert all(table.note in said and table.title in said for table in finding.tables)


def test_a_report_is_the_same_after_its_json() -> None:
    assert report_from_json(report_json(REPORT)) == REPORT


@given(REPORTS)
def test_every_report_is_the_same_after_its_json(report: StudyReport) -> None:
    again = report_from_json(report_json(report))

    assert again == report
    assert report_html(again) == report_html(report)


def test_the_json_keeps_numbers_as_they_are_and_keys_in_their_order() -> None:
    document = json.loads(report_json(REPORT))

    assert list(document) == ["title", "setup", "experiments", "version"]
    assert list(document["experiments"][0]) == ["name", "title", "question", "tables", "plots", "claims", "notes"]
    assert document["experiments"][0]["tables"][0]["rows"][1][2] == 95.1 / 100
    assert "À-la-carte" in report_json(REPORT)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a report"),
        ("[]", "not a report"),
        ("{}", "not a report: title"),
        ('{"version": 2}', "written by a newer alacarte"),
        ('{"title": "", "setup": [], "experiments": [], "version": 0}', "the form 0 is unknown"),
        ('{"title": "", "setup": [["a"]], "experiments": []}', "setup.0.1"),
        ('{"title": 1, "setup": [], "experiments": []}', "title"),
        (report_json(REPORT).replace('"holds": true', '"holds": "yes"'), "experiments.0.claims.0.holds"),
        ("[" * 100_000, "not a report"),
    ],
    ids=["nothing", "a list", "an empty object", "newer", "unknown", "half a pair", "a number", "a word", "deep"],
)
def test_what_is_no_report_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ReportInvalid, match=reason):
        report_from_json(text)


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
    report = replace(REPORT, experiments=(finding_of(table),))

    for refused in (report_html, report_json):
        with pytest.raises(ReportInvalid, match=reason):
            refused(report)
    with pytest.raises(ReportInvalid, match=reason):
        write_report(report, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_json_that_holds_what_cannot_be_shown_is_refused() -> None:
    text = report_json(replace(REPORT, experiments=(finding_of(TABLE),)))

    with pytest.raises(ReportInvalid, match="holds inf"):
        report_from_json(text.replace("0.5", "1e999"))


def test_both_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    write_report(REPORT, tmp_path / "new" / "folder")

    assert sorted(each.name for each in (tmp_path / "new" / "folder").iterdir()) == ["report.html", "report.json"]
    assert (tmp_path / "new/folder/report.html").read_bytes() == report_html(REPORT).encode()
    assert (tmp_path / "new/folder/report.json").read_bytes() == report_json(REPORT).encode()


def test_a_failed_write_leaves_the_old_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(REPORT, tmp_path)
    old = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_report(replace(REPORT, title="new"), tmp_path)

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == old


DIE_WRITING = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from tests.trainer.study.fixtures import example_report
from trainer.study.report.write import write_report
left = int(sys.argv[2])
def fsync(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = fsync
write_report(replace(example_report(), title="new"), Path(sys.argv[1]))
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
