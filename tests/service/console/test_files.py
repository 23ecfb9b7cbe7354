"""What the console is made of: every file is served, and the page needs no others."""

import re

from service.console.files import FOLDER, MEDIA_TYPES, PAGE, PARTS


def test_the_files_that_are_named_are_those_that_are_there() -> None:
    there = {path.name for path in FOLDER.iterdir() if path.suffix in MEDIA_TYPES}

    assert there == {PAGE, *PARTS}


def test_no_file_asks_for_anything_from_elsewhere() -> None:
    for name in (PAGE, *PARTS):
        text = (FOLDER / name).read_text()
        found = set(re.findall(r"https?://[^\s\"']+", text)) - {"http://www.w3.org/2000/svg"}
        assert found == set(), name


def test_no_text_ever_becomes_markup() -> None:
    for name in PARTS:
        text = (FOLDER / name).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )


def test_every_module_opens_with_its_job_and_stays_small() -> None:
    for name in PARTS:
        text = (FOLDER / name).read_text()
        if name.endswith(".js"):
            assert re.match(r"/\*\* .+\. \*/\n", text), name
        assert len(text.splitlines()) <= 250, name
