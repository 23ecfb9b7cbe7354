"""A study's report as two files: an HTML page for people, and JSON for programs."""

import base64
import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alacarte.prompting.prompt.artifact import write_bytes
from trainer.study.report.formatting import (
    REPLACEMENT,
    format_cell,
    format_deviation,
    label_paper,
    replace_invalid_characters,
)
from trainer.study.report.plots import assign_styles, has_log_axis, render_svg
from trainer.study.results import StudyReport

FOLDER = Path(__file__).parent
HTML_NAME = "report.html"
JSON_NAME = "report.json"

_SURROGATES = re.compile("[\ud800-\udfff]")  # cannot be encoded


def report_html(report: StudyReport) -> str:
    """Render the report as one page that needs no other file, or raise ReportInvalid."""
    report.validate()
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {
        "assign_styles": assign_styles,
        "format_cell": format_cell,
        "format_deviation": format_deviation,
        "has_log_axis": has_log_axis,
        "label_paper": label_paper,
        "render_svg": render_svg,
        "zip": zip,
    }
    styles = (FOLDER / "report.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    template = environment.get_template("report.html.j2")
    return template.render(report=report, styles=styles, styles_digest=digest)


def _finalize(value: object) -> object:
    """Replace invalid characters in plain text; Markup is inserted unchanged."""
    return replace_invalid_characters(value) if type(value) is str else value


def report_json(report: StudyReport) -> str:
    """Serialize the report with all its numbers; equal reports give equal text. Raises ReportInvalid."""
    report.validate()
    text = json.dumps(asdict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return _SURROGATES.sub(REPLACEMENT, text)


def write_report(report: StudyReport, folder: Path) -> None:
    """Write both files into the folder, each atomically."""
    texts = {JSON_NAME: report_json(report), HTML_NAME: report_html(report)}  # render both before writing either
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_bytes(text.encode(), folder / name)
