"""Naming rules: one class per name, few modules per folder, and no word of a list that describes nothing."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("alacarte", "registry", "service", "trainer")
MAX_SIBLINGS = 14
# Metaphors, and verbs that do not say what happens.
_BANNED_WORDS = """
asked asking burial buried bury cramped desk doomed door doors emptying flights heed house household housekeeping
houses hurry inflate inflated keeper knower knowers laboratory lane lanes lobby mend mended nursery opinion opinions
outlook parcel parcels pardon pardoned pinning residence residences resident residents ruler said say saying says
scar scars scrubbing seat seating seats seeing sees shelf shout sift sifted soloist stash station stations stray
strays tell telling tells told unbury visit visiting visits voice voices wanted ward wish wishes workshop
"""
BANNED = frozenset(_BANNED_WORDS.split())
ALLOWED = {"registry/datasets/tar_reader.py": {"tell"}}  # a method of the file protocol


def _python_files(*tops: str) -> Iterator[Path]:
    for top in tops:
        yield from sorted((ROOT / top).rglob("*.py"))


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def _defined_names(file: Path) -> Iterator[tuple[int, str]]:
    """Every name that the file gives to a class, function, argument, variable or attribute."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def test_a_class_name_means_one_class() -> None:
    places = defaultdict(list)
    for file in _python_files(*PACKAGES):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("pattern", ["*.py", "*.js"])
def test_no_folder_has_more_modules_than_a_reader_can_survey(pattern: str) -> None:
    counts = Counter(
        file.parent.relative_to(ROOT)
        for top in (*PACKAGES, "bench")
        for file in (ROOT / top).rglob(pattern)
        if file.name != "__init__.py" and file.parent.name != "versions"
    )

    assert {str(folder): count for folder, count in counts.items() if count > MAX_SIBLINGS} == {}


@pytest.mark.parametrize("top", [*PACKAGES, "bench", "tools", "tests"])
def test_no_name_has_a_word_that_describes_nothing(top: str) -> None:
    bad = [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file in _python_files(top)
        for line, name in [(1, file.stem), *_defined_names(file)]
        if _words(name) & BANNED
        and not name.startswith("test_")
        and name not in ALLOWED.get(file.relative_to(ROOT).as_posix(), ())
    ]

    assert bad == []


def test_the_rules_are_able_to_fail(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("class TokenDoor:\n    def tell(self, parcel): self.said = parcel\n")

    names = [name for _, name in _defined_names(file)]

    assert [name for name in names if _words(name) & BANNED] == ["TokenDoor", "tell", "parcel", "said"]
