"""A study's report as files: a page for people, and the same in JSON for programs, each from the other's values."""

import json
import re
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from alacarte.prompting.prompt.artifact import write_bytes
from trainer.study.report.markup import REPLACEMENT
from trainer.study.report.page import page
from trainer.study.results import ReportInvalid, StudyReport

VERSION = 1
PAGE = "report.html"
DOCUMENT = "report.json"

_HALVES = re.compile("[\ud800-\udfff]")  # of characters: no file can carry one alone


def report_html(report: StudyReport) -> str:
    """The report as one page that needs nothing else, or ReportInvalid with the reason."""
    report.validate()
    return page(report)


def report_json(report: StudyReport) -> str:
    """The report with all its numbers as they are; always the same text for the same report."""
    report.validate()
    text = json.dumps(asdict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return _HALVES.sub(REPLACEMENT, text)


def report_from_json(text: str) -> StudyReport:
    """The report that the text holds, or ReportInvalid with the reason."""
    try:
        version = TypeAdapter(dict[str, object]).validate_json(text).get("version")
        if isinstance(version, int) and version > VERSION:
            raise ReportInvalid(f"written by a newer alacarte (form {version}): upgrade alacarte to show it")
        report = TypeAdapter(StudyReport).validate_json(text, strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ReportInvalid(f"not a report: {where + ': ' if where else ''}{fault['msg']}") from error
    if report.version != VERSION:
        raise ReportInvalid(f"the form {report.version} is unknown: run the study again")
    report.validate()
    return report


def write_report(report: StudyReport, folder: Path) -> None:
    """Put both files into the folder; at every moment each is all of the old one or all of the new one."""
    texts = {DOCUMENT: report_json(report), PAGE: report_html(report)}  # made before either is written
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_bytes(text.encode(), folder / name)
