"""A real browser shows the whole page at any width, loads nothing else, and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.servers.chromium import launch_chromium
from tests.trainer.study.fixtures import EXAMPLE_REPORT
from tests.trainer.study.report.test_report import HOSTILE, replace_texts
from trainer.study.report.write import write_report

WIDTHS = (320, 400, 768, 1280)
TEXTS = {
    "a study": None,
    "hostile": HOSTILE,
    "long": "Pneumonoultramicroscopicsilicovolcanoconiosis" * 9,
    "letters": "Ŵ" * 300,
}

# The texts of plots that lie outside of their plot, as measured by the browser.
OUTSIDE = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1;
  }).map(text => text.textContent);
})"""


@pytest.fixture
def page() -> Iterator[Page]:
    """Open an empty page."""
    with launch_chromium() as browser:
        yield browser.new_page()


@pytest.mark.parametrize("kind", TEXTS)
def test_the_page_fits_every_width_and_loads_nothing_else(kind: str, page: Page, tmp_path: Path) -> None:
    text = TEXTS[kind]
    write_report(EXAMPLE_REPORT if text is None else replace_texts(EXAMPLE_REPORT, text), tmp_path)
    requested: list[str] = []
    messages: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))

    address = (tmp_path / "report.html").as_uri()
    page.goto(address)

    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("getComputedStyle(document.querySelector('.plot')).display") == "block"  # the styles apply
    assert page.evaluate("window.touched === undefined")
    assert (requested, messages) == ([address], [])
