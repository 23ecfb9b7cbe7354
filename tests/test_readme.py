"""The README and the page of commands are true: the Python runs, every command is named, every link leads somewhere."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.main import get_command

from alacarte.cli.main import app
from alacarte.prompting.backbone import build
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import write_prompt
from tests.prompting.reference import small_prompt

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "CLI.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_python_example_runs_and_prints_a_label(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", CLI, re.DOTALL)
    (tmp_path / "prompts").mkdir()
    for shard in range(5):
        write_prompt(small_prompt(backbone, seed=shard), tmp_path / "prompts" / f"shard-{shard}.safetensors")
    for name in ("cat.jpg", "dog.jpg"):
        Image.new("RGB", (80, 60), "teal").save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    loaded: Callable[[], Backbone] = lambda: backbone  # noqa: E731  # the hub is not asked by tests
    monkeypatch.setattr(build, "build_backbone", loaded)

    exec(example, {})

    label, score = capsys.readouterr().out.split()
    assert label in small_prompt(backbone).metadata.labels
    assert 0 < float(score) <= 1


def test_every_command_is_named() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]  # typer calls it a plain command

    assert commands
    named = {name for names in re.findall(r"`alacarte ([\w\\|]+)", CLI) for name in names.split("\\|")}
    assert set(commands) <= named


def test_the_readme_starts_it_tests_it_and_leads_to_every_page() -> None:
    assert "    make run" in README
    assert "    make test" in README
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for name, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
        target = page.parent / name if name else page
        assert target.is_file(), name
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    tops = "alacarte|registry|trainer|service|bench|tests|tools|docs"
    for name in re.findall(rf"`((?:{tops})(?:/[\w.-]+)+/?)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name
