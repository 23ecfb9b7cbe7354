"""The command as a whole: help without torch, the version, missing extras, Ctrl-C, and choices as in the library."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import pytest
from typer.main import get_command

from alacarte.cli import options
from alacarte.cli.errors import ErrorReportingGroup
from alacarte.cli.main import GROUPS, app
from alacarte.prompting.prompt.metadata import Variant
from tests.cli.fixtures import run, run_json
from trainer.recipe import Augmentation

COMMANDS = ("train", "predict", "inspect", "up")


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"], ["eval", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys, contextlib\n"
        "from alacarte.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "heavy = {'torch', 'timm', 'torchvision', 'safetensors', 'sklearn', 'numpy', 'PIL', 'matplotlib'}\n"
        "heavy &= sys.modules.keys()\n"
        "print('heavy:', *sorted(heavy))"
    )

    ended = python(program, *arguments)

    assert ended.stdout.splitlines()[-1].strip() == "heavy:"


def test_no_arguments_print_the_help() -> None:
    ended = run()

    assert ended.code == 0
    assert all(command in ended.out for command in COMMANDS)


def test_the_version_is_the_distributions() -> None:
    assert run("--version").out == f"alacarte {version('alacarte')}\n"


def test_the_choices_are_the_librarys() -> None:
    assert get_args(options.VariantName) == get_args(Variant)
    assert get_args(options.AugmentationName) == get_args(Augmentation)


@pytest.mark.parametrize(
    ("module", "extra", "command"),
    [
        ("torch", "torch", ("train", "/")),
        ("matplotlib", "study", ("eval", "--data", "/")),
        ("httpx", "client", ("source", "list", "--url", "http://127.0.0.1:9", "--token", "t")),
    ],
)
def test_a_missing_module_is_reported_with_its_extra(module: str, extra: str, command: tuple[str, ...]) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; from alacarte.cli.main import main; main()"
    ended = python(program, *command)

    assert ended.returncode == 1
    assert ended.stderr == f"error: this command needs {module}: pip install 'alacarte[{extra}]'\n"


def test_a_module_that_no_extra_installs_is_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'alacarte.cli.gone'", name="alacarte.cli.gone")

    monkeypatch.setattr(ErrorReportingGroup.__base__, "invoke", lose)

    with pytest.raises(ModuleNotFoundError):
        run("inspect", "x")


def test_a_wrong_option_is_a_usage_error() -> None:
    assert run("up", "--port", "-1").code == 2
    assert run("nonsense").code == 2


def test_an_interruption_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ErrorReportingGroup.__base__, "invoke", interrupt)

    ended = run("inspect", "x")

    assert (ended.code, ended.err) == (130, "error: interrupted\n")


def test_an_error_stays_on_its_line_whatever_a_name_contains() -> None:
    ended = run("inspect", "no\nsuch\x1b[31m.safetensors")

    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    assert "\x1b" not in ended.err


def test_without_a_registry_every_command_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path / "new"))

    for command in (("user", "list"), ("doctor",), ("source", "list"), ("erasure", "key")):
        assert "alacarte db upgrade" in run(*command).error
    assert list(tmp_path.iterdir()) == []


def test_a_registry_is_made_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path / "new"))

    made = run_json("db", "upgrade")
    assert made["before"] is None
    assert run_json("db", "upgrade")["before"] == made["after"]
    assert run_json("db", "status")["is_current"] is True
    assert "BEGIN PUBLIC KEY" in run("erasure", "key").out
    assert run_json("user", "list") == {"users": []}


def test_every_command_of_the_registry_has_a_document_for_programs() -> None:
    root = get_command(app)
    without = {"receipt"}  # which is a document itself
    for group in GROUPS:
        for name, command in root.commands[group].commands.items():  # type: ignore[attr-defined]
            options = {option for parameter in command.params for option in parameter.opts}
            assert name in without or "--json" in options, f"{group} {name}"
