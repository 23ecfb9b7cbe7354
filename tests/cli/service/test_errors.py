"""Errors of commands on a service: one line, an exit code, and never the token."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from alacarte.cli.main import app
from tests.cli.fixtures import run
from tests.cli.service.conftest import RunAs
from tests.servers.processes import find_free_ports
from tests.service.deployment import GARBAGE, TASK, Deployment, picture

ID = "00000000-0000-7000-8000-000000000001"
# Valid arguments for every command that works on a service; the things that they name do not exist.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "status": (), "predict": ("{picture}", "--source", "nothing"),
    "source list": (), "source show": ("nothing",), "source add": ("new", "{folder}", "--task", "nothing"),
    "source extend": ("nothing", "{folder}"), "source push": ("nothing", "{prompt}"), "source samples": ("nothing",),
    "source cancel": ("nothing",), "source resume": ("nothing",), "source forget": ("nothing",),
    "task list": (), "task show": ("nothing",), "task add": ("new",), "task remove": ("nothing",),
    "grant list": (), "grant add": ("nobody", "nothing"), "grant revoke": ("nobody", "nothing"),
    "erasure list": (), "erasure show": (ID,), "erasure receipt": (ID,), "erasure verify": (ID,),
    "release list": (), "release show": ("nothing", "--task", TASK), "release pin": ("new", "--task", "nothing"),
    "release remove": ("nothing", "--task", TASK),
    "user list": (), "user show": ("nobody",), "user add": ("new",), "user remove": ("nobody",),
    "user join": ("nobody", "no one"), "user leave": ("nobody", "no one"), "user quota": ("nobody",),
    "user bind": ("nobody", "--subject", "x"), "user unbind": ("nobody",),
    "token list": (), "token issue": ("nobody",), "token revoke": (ID,),
}  # fmt: skip
LOCAL_ONLY: dict[str, tuple[str, ...]] = {
    "up": (), "serve": (), "work": (), "doctor": (), "db status": (), "db upgrade": (),
    "source rename": ("a", "b"), "source owner": ("a", "b"),
    "erasure run": (), "erasure confirm": (ID,), "erasure key": (),
}  # fmt: skip
LISTS = {name for name in ARGUMENTS if name.endswith("list")} | {"status"}
CREATES = {"task add", "user add"}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "cat").mkdir()
    (folder / "cat" / "1.png").write_bytes(b"picture")
    (folder / "prompt.safetensors").write_bytes(b"prompt")
    found = {"folder": folder, "picture": folder / "cat" / "1.png", "prompt": folder / "prompt.safetensors"}
    return {name: str(path) for name, path in found.items()}


def command_line(command: str, files: dict[str, str]) -> list[str]:
    return [*command.split(), *(argument.format(**files) for argument in ARGUMENTS[command])]


def find_commands(command: Any, name: str = "") -> dict[str, list[Any]]:  # Any: of click, which typer may vendor
    """Return the parameters of every command by its name."""
    if not hasattr(command, "commands"):
        return {name: command.params}
    found: dict[str, list[Any]] = {}
    for child, inner in command.commands.items():
        found |= find_commands(inner, f"{name} {child}".strip())
    return found


def test_every_command_that_takes_a_url_is_tested_here() -> None:
    urls = {
        name: parameter
        for name, parameters in find_commands(get_command(app)).items()
        for parameter in parameters
        if "--url" in parameter.opts
    }

    assert set(ARGUMENTS) == {name for name, parameter in urls.items() if not parameter.hidden}
    assert set(LOCAL_ONLY) == {name for name, parameter in urls.items() if parameter.hidden}


@pytest.mark.parametrize("command", LOCAL_ONLY)
def test_a_command_for_this_machine_refuses_a_url(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path / "home"))

    ended = run(*command.split(), *LOCAL_ONLY[command], "--url", "http://127.0.0.1:9")

    assert (ended.code, ended.out) == (1, "")
    assert "works on this machine only" in ended.error
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_wrong_token_is_reported_in_one_line(command: str, deployment: Deployment, files: dict[str, str]) -> None:
    ended = run(*command_line(command, files), "--url", deployment.url, "--token", GARBAGE)

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert "Unauthenticated (401): the token is unknown" in ended.error
    assert "xxx" not in ended.err


@pytest.mark.parametrize("command", ARGUMENTS)
def test_an_unreachable_service_is_reported_in_one_line(command: str, files: dict[str, str]) -> None:
    [port] = find_free_ports(1)

    ended = run(*command_line(command, files), "--url", f"http://127.0.0.1:{port}", "--token", GARBAGE)

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (75, "", 1)
    assert ended.error.startswith(f"http://127.0.0.1:{port} cannot be reached: ")


@pytest.mark.parametrize("command", sorted(ARGUMENTS.keys() - LISTS - CREATES))
def test_what_does_not_exist_is_reported_in_one_line(command: str, run_as: RunAs, files: dict[str, str]) -> None:
    ended = run_as("admin", *command_line(command, files))

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert "no " in ended.error


@pytest.mark.parametrize("command", sorted(CREATES))
def test_what_needs_an_admin_is_refused_in_one_line(command: str, run_as: RunAs, files: dict[str, str]) -> None:
    ended = run_as("user", *command_line(command, files))

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert "Forbidden (403)" in ended.error


def test_an_incomplete_url_and_token_is_refused(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALACARTE_URL", raising=False)
    monkeypatch.delenv("ALACARTE_TOKEN", raising=False)
    empty = tmp_path / "empty"
    empty.touch()
    url = ("--url", deployment.url)

    assert "ALACARTE_URL" in run("source", "list", "--token", "t").error
    assert "ALACARTE_TOKEN" in run("source", "list", *url).error
    assert "is not the URL of a service" in run("source", "list", "--url", "example.org", "--token", "t").error
    assert "two tokens" in run("source", "list", *url, "--token", "t", "--token-file", empty).error
    assert "is empty" in run("source", "list", *url, "--token-file", empty).error
    assert "No such file" in run("source", "list", *url, "--token-file", tmp_path / "gone").error
    assert "no token has" in run("source", "list", *url, "--token", "naïve").error


def test_the_token_of_the_option_overrides_the_environment(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALACARTE_TOKEN", GARBAGE)

    ended = run("status", "--url", deployment.url, "--token", deployment.tokens["owner"], "--json")

    assert ended.document["name"] == "owner"


def test_commands_on_a_service_import_nothing_heavy(deployment: Deployment, tmp_path: Path) -> None:
    heavy = ["torch", "timm", "torchvision", "safetensors", "numpy", "PIL", "sqlalchemy", "alembic", "fastapi"]
    program = (
        f"import sys\nfor name in {heavy!r}: sys.modules[name] = None\n"  # as if they were not installed
        "from alacarte.cli.main import main\nmain()"
    )
    image = tmp_path / "picture.png"
    image.write_bytes(picture())
    environment = {**os.environ, "ALACARTE_URL": deployment.url, "ALACARTE_TOKEN": deployment.tokens["user"]}

    for command in (["status"], ["source", "list"], ["predict", str(image), "--task", TASK]):
        done = subprocess.run(
            [sys.executable, "-c", program, *command], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
