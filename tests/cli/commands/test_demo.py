"""`alacarte demo`: four sources, one forgotten and added back, on a backbone that knows nothing."""

import tempfile
from pathlib import Path

import pytest

from alacarte.cli.actions import demo
from alacarte.cli.actions.demo import Extent
from alacarte.cli.actions.digits import DIGITS, write_digits
from tests.cli.fixtures import run


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small demo, whose temporary files are made here."""
    monkeypatch.setattr(demo, "EXTENT", Extent(pictures=20, tests=20, epochs=1, size=32))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_story_is_told_and_leaves_nothing_behind(temporary: Path) -> None:
    ended = run("demo", "--weights", "random")

    assert ended.code == 0
    assert all(f"{name} alone" in ended.out for name in DIGITS)
    assert "all 200 scores are exactly what they were before" in ended.out
    assert list(temporary.iterdir()) == []


def test_what_is_kept_can_be_predicted_with(temporary: Path) -> None:
    kept = temporary / "kept"

    assert run("demo", "--weights", "random", "--keep", str(kept)).code == 0

    assert sorted(path.name for path in temporary.iterdir()) == ["kept"]
    picture = next((kept / "tests").iterdir())
    told = run("predict", str(picture), "--prompts", str(kept / "prompts"), "--weights", "random", "--json")
    assert told.code == 0
    assert run("demo", "--weights", "random", "--keep", str(kept)).error.startswith(f"{kept} is there already")


def test_the_document_has_the_same_scores_before_and_after(temporary: Path) -> None:
    told = run("demo", "--weights", "random", "--json").document

    before, without, after, *alone = told["scores"]
    assert before["right"] == after["right"]
    assert before["sources"] == after["sources"] == ["ann", "bob", "cem", "dee"]
    assert without["sources"] == ["ann", "cem", "dee"]
    assert [score["sources"] for score in alone] == [["ann"], ["bob"], ["cem"], ["dee"]]
    assert [source["samples"] for source in told["sources"]] == [20, 20, 20, 20]


def test_an_answer_that_does_not_come_back_ends_the_demo(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, calls = demo._ask, []

    def forgetful(*arguments: object) -> object:
        calls.append(arguments)
        answers = ask(*arguments)  # type: ignore[arg-type]
        return answers if len(calls) < 3 else answers[::-1]

    monkeypatch.setattr(demo, "_ask", forgetful)

    ended = run("demo", "--weights", "random")

    assert (ended.code, ended.out) == (1, "")
    assert "adding bob back changed an answer" in ended.error
    assert list(temporary.iterdir()) == []


def test_no_picture_is_in_two_sources_or_in_a_source_and_the_tests(tmp_path: Path) -> None:
    folders, tests = write_digits(tmp_path, each=100, tests=200, seed=0)

    pictures = [path.name for folder in folders.values() for path in folder.rglob("*.png")]
    pictures += [test.path.name for test in tests]
    assert len(pictures) == len(set(pictures)) == 600


def test_each_source_has_pictures_of_its_own_digits_only(tmp_path: Path) -> None:
    folders, _ = write_digits(tmp_path, each=100, tests=200, seed=0)

    for name, folder in folders.items():
        assert sorted(path.name for path in folder.iterdir()) == [str(digit) for digit in DIGITS[name]]
