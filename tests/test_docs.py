"""The documentation is true: examples run, commands, files, links, tests and settings that it names exist."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.main import get_command

from alacarte.cli.main import app
from alacarte.prompting.backbone import vit
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import write_prompt
from registry.settings import RegistrySettings
from service.auth.rate_limit import MAX_BUCKETS
from service.settings import ServiceSettings
from tests.prompting.reference import small_prompt

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "CLI.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs" / "SECURITY.md").read_text(encoding="utf-8")
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
    monkeypatch.setattr(vit, "build_backbone", loaded)

    exec(example, {})

    label, score = capsys.readouterr().out.split()
    assert label in small_prompt(backbone).metadata.labels
    assert 0 < float(score) <= 1


def test_every_command_is_documented() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]  # typer calls it a plain command

    assert commands
    named = {name for names in re.findall(r"`alacarte ([\w\\|]+)", CLI) for name in names.split("\\|")}
    assert set(commands) <= named


def test_the_readme_has_both_commands_and_links_every_page() -> None:
    assert "    make run" in README
    assert "    make test" in README
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_has_a_target(page: Path) -> None:
    for name, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
        target = page.parent / name if name else page
        assert target.is_file(), name
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    tops = "alacarte|registry|trainer|service|bench|tests|tools|docs"
    for name in re.findall(rf"`((?:{tops})(?:/[\w.-]+)+/?)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def _tests_in(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_test_that_the_security_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", SECURITY)
    assert len(named) > 30
    for path, name in named:
        file = ROOT / path
        assert file.exists(), path
        if name:
            assert name in _tests_in(file), f"{path} has no {name}"
        elif file.is_file():
            assert any(
                line.startswith(("def test_", "    def test_", "Test")) for line in file.read_text().splitlines()
            )


def test_every_threat_names_a_test() -> None:
    table = SECURITY.partition("| who | wants |")[2].partition("\n\n")[0].splitlines()[2:]

    assert len(table) > 15
    for line in table:
        assert "`tests/" in line.rpartition(" | ")[2], line


def test_every_setting_and_default_on_the_security_page_is_true() -> None:
    known = {f"ALACARTE_{name.upper()}" for name in ServiceSettings.model_fields}
    assert set(re.findall(r"ALACARTE_\w+", SECURITY)) <= known
    fields = ServiceSettings.model_fields

    assert f"{fields['rate_per_s'].default:,.0f} a second and {fields['rate_burst'].default:,} at once" in SECURITY
    assert f"`ALACARTE_QUOTA_BYTES` ({RegistrySettings.model_fields['quota_bytes'].default // 2**30} GiB)" in SECURITY
    assert f"at most {MAX_BUCKETS:,} of them" in SECURITY
