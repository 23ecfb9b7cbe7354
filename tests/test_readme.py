"""The README is true: its Python runs, and it names every command there is."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.main import get_command

from alacarte.cli.main import app
from alacarte.prompting import build
from alacarte.prompting.artifact import write_prompt
from alacarte.prompting.backbone import Backbone
from tests.prompting.reference import small_prompt

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs_and_prints_a_label(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
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
    assert label in small_prompt(backbone).facts.labels
    assert 0 < float(score) <= 1


def test_every_command_is_named() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]  # typer calls it a plain command

    assert commands
    named = {name for names in re.findall(r"`alacarte ([\w\\|]+)", README) for name in names.split("\\|")}
    assert set(commands) <= named
