"""A report as one HTML page that asks for nothing else: styles and plots stand in it, and scripts cannot run."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from trainer.study.report.formatting import SPACE, label_paper, show, show_spread
from trainer.study.report.markup import Markup, element, join
from trainer.study.report.svg import plot_svg
from trainer.study.results import Cell, ClaimCheck, Column, ExperimentResult, Plot, StudyReport, Table

STYLES = Path(__file__).with_name("report.css")


def page(report: StudyReport) -> str:
    """The whole page."""
    styles = STYLES.read_text("utf-8")
    return join(
        Markup('<!doctype html>\n<html lang="en">\n'),
        _head(report.title, styles),
        Markup("\n<body>\n"),
        element("header", element("h1", report.title), _setting(report.setup)),
        Markup("\n<main>\n"),
        _summary(report.experiments),
        _contents(report.experiments),
        *(_finding(finding, number) for number, finding in enumerate(report.experiments, 1)),
        Markup("</main>\n</body>\n</html>\n"),
    )


def _head(title: str, styles: str) -> Markup:
    """The head, with a policy that lets in these very styles and nothing else."""
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        element("title", title),
        element("style", Markup(styles)),
    )


def _setting(setting: Sequence[tuple[str, str]]) -> Markup:
    rows = (element("tr", element("th", name, scope="row"), element("td", value)) for name, value in setting)
    return element("table", element("tbody", *rows), class_="setting") if setting else Markup()


def _summary(experiments: Sequence[ExperimentResult]) -> Markup:
    """All claims on top, below the findings that speak of them."""
    claims = [claim for finding in experiments for claim in finding.claims]
    groups = (
        join(element("h3", _link(finding, number)), _claims(finding.claims))
        for number, finding in enumerate(experiments, 1)
        if finding.claims
    )
    return element(
        "section",
        element("h2", "What holds", id="what-holds"),
        element("p", f"Of the claims, {_tally(claims)}." if claims else "This report makes no claims."),
        *groups,
        class_="summary",
    )


def _contents(experiments: Sequence[ExperimentResult]) -> Markup:
    entries = (
        element("li", _link(finding, number), element("span", _tally(finding.claims)) if finding.claims else "")
        for number, finding in enumerate(experiments, 1)
    )
    return element("nav", element("h2", "Contents", id="contents"), element("ol", *entries), aria_labelledby="contents")


def _finding(finding: ExperimentResult, number: int) -> Markup:
    notes = element("ul", *(element("li", remark) for remark in finding.notes), class_="notes")
    return element(
        "section",
        element("h2", finding.title, " ", element("code", finding.name), id=_anchor(number)),
        element("p", finding.question, class_="question"),
        _claims(finding.claims),
        element("div", *(_plot(plot) for plot in finding.plots), class_="plots") if finding.plots else "",
        *(_table(table) for table in finding.tables),
        join(element("h3", "Notes"), notes) if finding.notes else "",
        class_="finding",
    )


def _claims(claims: Sequence[ClaimCheck]) -> Markup:
    entries = (
        element(
            "li",
            element("span", "✓ holds" if claim.holds else "✗ fails", class_="holds" if claim.holds else "fails"),
            element("div", element("p", claim.text), element("p", "Measured: ", claim.measured, class_="measured")),
        )
        for claim in claims
    )
    return element("ul", *entries, class_="claims") if claims else Markup()


def _plot(plot: Plot) -> Markup:
    return element("figure", element("figcaption", plot.title), Markup(plot_svg(plot)))


def _table(table: Table) -> Markup:
    """The table in a box of its own, in which it can be moved where it is wider than the page."""
    titles = (
        element("th", label_paper(column.title, column.from_paper), scope="col", class_=_kind(column))
        for column in table.columns
    )
    nowhere = (None,) * len(table.columns)
    rows = (
        element(
            "tr",
            *(
                _cell(cell, spread, column, place)
                for place, (cell, spread, column) in enumerate(
                    zip(row, standard_deviations, table.columns, strict=True)
                )
            ),
        )
        for row, standard_deviations in zip(
            table.rows, table.standard_deviations or [nowhere] * len(table.rows), strict=True
        )
    )
    return element(
        "figure",
        element("figcaption", table.title),
        element(
            "div",
            element("table", element("thead", element("tr", *titles)), element("tbody", *rows)),
            class_="scroll",
            role="region",
            aria_label=table.title,
            tabindex="0",  # so that keys can move it
        ),
        element("p", table.note, class_="note") if table.note else "",
    )


def _cell(cell: Cell, spread: float | None, column: Column, place: int) -> Markup:
    """The first cell of a row names it; texts are broken into lines only when they are long."""
    shown = show(cell, column.unit)
    if spread is not None:
        shown += f"{SPACE}±{SPACE}{show_spread(spread, column.unit)}"
    text = element("span", shown) if column.unit == "text" else shown
    name, scope = ("td", None) if place else ("th", "row")
    return element(name, text, scope=scope, class_=_kind(column))


def _kind(column: Column) -> str | None:
    """What a column's cells look like."""
    kinds = [*(["number"] if column.unit != "text" else []), *(["theirs"] if column.from_paper else [])]
    return " ".join(kinds) or None


def _tally(claims: Sequence[ClaimCheck]) -> str:
    return f"{sum(claim.holds for claim in claims)} of {len(claims)} {'holds' if len(claims) == 1 else 'hold'}"


def _link(finding: ExperimentResult, number: int) -> Markup:
    return element("a", finding.title, href=f"#{_anchor(number)}")


def _anchor(number: int) -> str:
    return f"finding-{number}"  # by its place: names may be anything
