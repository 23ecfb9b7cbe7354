"""The console's files: all of them are served, and the page needs no others."""

import re

from service.console.files import ASSETS, FOLDER, PAGE


def test_every_import_of_the_page_is_served() -> None:
    for name in (PAGE, *ASSETS):
        imports = re.findall(r'(?:from|href=|src=) ?"([^"#]+\.\w+)"', (FOLDER / name).read_text())
        base = FOLDER.parent if name == PAGE else (FOLDER / name).parent
        assert {(base / path).resolve().relative_to(FOLDER).as_posix() for path in imports} <= ASSETS, name


def test_no_file_requests_anything_from_other_hosts() -> None:
    for name in (PAGE, *ASSETS):
        text = (FOLDER / name).read_text()
        urls = set(re.findall(r"https?://[^\s\"']+", text)) - {"http://www.w3.org/2000/svg"}
        assert urls == set(), name


def test_no_text_ever_becomes_markup() -> None:
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")
    for name in ASSETS:
        assert not markup.search((FOLDER / name).read_text()), name


def test_every_module_opens_with_its_job_and_stays_small() -> None:
    for name in ASSETS:
        text = (FOLDER / name).read_text()
        if name.endswith(".js"):
            assert re.match(r"/\*\* .+\. \*/\n", text), name
        assert len(text.splitlines()) <= 250, name
