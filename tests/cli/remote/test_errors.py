"""Whatever goes wrong between here and a service is one line and an exit code, and never the token."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from alacarte.cli.remote.group import PANELS
from tests.cli.fixtures import run
from tests.cli.remote.conftest import Ask
from tests.servers.processes import free_ports
from tests.service.deployment import GARBAGE, TASK, Deployment, picture

ID = "00000000-0000-7000-8000-000000000001"
# Every command with arguments that would do, were there a service, a right, and such a thing.
SAID: dict[str, tuple[str, ...]] = {
    "status": (), "predict": ("{picture}", "--source", "nothing"), "sources": (), "source": ("nothing",),
    "tasks": (), "task": ("nothing",), "upload": ("new", "{folder}", "--task", "nothing"),
    "extend": ("nothing", "{folder}"), "push": ("nothing", "{prompt}"), "samples": ("nothing",),
    "cancel": ("nothing",), "resume": ("nothing",), "grants": (), "grant": ("nobody", "nothing"),
    "revoke": ("nobody", "nothing"), "forget": ("nothing",), "erasures": (), "erasure": (ID,), "verify": (ID,),
    "create-task": ("new",), "remove-task": ("nothing",), "releases": (),
    "release": ("nothing", "--task", TASK), "pin-release": ("new", "--task", "nothing"),
    "remove-release": ("nothing", "--task", TASK), "users": (), "user": ("nobody",), "create-user": ("new",),
    "remove-user": ("nobody",), "join": ("nobody", "no one"), "leave": ("nobody", "no one"), "tokens": (),
    "issue-token": ("nobody",), "revoke-token": (ID,),
}  # fmt: skip
LISTS = {"status", "sources", "tasks", "grants", "erasures", "releases", "users", "tokens"}
MAKES = {"create-task", "create-user"}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "cat").mkdir()
    (folder / "cat" / "1.png").write_bytes(b"picture")
    (folder / "prompt.safetensors").write_bytes(b"prompt")
    found = {"folder": folder, "picture": folder / "cat" / "1.png", "prompt": folder / "prompt.safetensors"}
    return {name: str(path) for name, path in found.items()}


def said(command: str, files: dict[str, str]) -> list[str]:
    return [command, *(one.format(**files) for one in SAID[command])]


def test_no_command_is_left_out_here() -> None:
    assert set(SAID) == {command.__name__.replace("_", "-") for panel in PANELS.values() for command in panel}


@pytest.mark.parametrize("command", SAID)
def test_a_wrong_token_is_told_in_one_line(command: str, deployment: Deployment, files: dict[str, str]) -> None:
    ended = run("remote", *said(command, files), "--url", deployment.url, "--token", GARBAGE)

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert "Unauthenticated (401): the token is unknown" in ended.error
    assert "xxx" not in ended.err


@pytest.mark.parametrize("command", SAID)
def test_a_service_that_is_away_is_told_in_one_line(command: str, files: dict[str, str]) -> None:
    [port] = free_ports(1)

    ended = run("remote", *said(command, files), "--url", f"http://127.0.0.1:{port}", "--token", GARBAGE)

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (75, "", 1)
    assert ended.error.startswith(f"http://127.0.0.1:{port} cannot be reached: ")


@pytest.mark.parametrize("command", sorted(SAID.keys() - LISTS - MAKES))
def test_what_is_not_there_is_told_in_one_line(command: str, ask: Ask, files: dict[str, str]) -> None:
    ended = ask("admin", *said(command, files))

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert "no " in ended.error


@pytest.mark.parametrize("command", sorted(MAKES))
def test_what_is_an_admins_is_told_to_others_in_one_line(command: str, ask: Ask, files: dict[str, str]) -> None:
    ended = ask("user", *said(command, files))

    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert "Forbidden (403)" in ended.error


def test_half_of_what_a_service_is_asked_with_is_refused(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALACARTE_URL", raising=False)
    monkeypatch.delenv("ALACARTE_TOKEN", raising=False)
    empty = tmp_path / "empty"
    empty.touch()
    url = ("--url", deployment.url)

    assert "ALACARTE_URL" in run("remote", "sources", "--token", "t").error
    assert "ALACARTE_TOKEN" in run("remote", "sources", *url).error
    assert "is not the URL of a service" in run("remote", "sources", "--url", "example.org", "--token", "t").error
    assert "two tokens" in run("remote", "sources", *url, "--token", "t", "--token-file", empty).error
    assert "is empty" in run("remote", "sources", *url, "--token-file", empty).error
    assert "No such file" in run("remote", "sources", *url, "--token-file", tmp_path / "gone").error
    assert "no token has" in run("remote", "sources", *url, "--token", "naïve").error


def test_a_token_on_the_command_line_goes_before_the_environments(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALACARTE_TOKEN", GARBAGE)

    ended = run("remote", "status", "--url", deployment.url, "--token", deployment.tokens["owner"], "--json")

    assert ended.document["name"] == "owner"


def test_asking_needs_nothing_heavy(deployment: Deployment, tmp_path: Path) -> None:
    heavy = ["torch", "timm", "torchvision", "safetensors", "numpy", "PIL", "sqlalchemy", "alembic", "fastapi"]
    program = (
        f"import sys\nfor name in {heavy!r}: sys.modules[name] = None\n"  # as if they were not installed
        "from alacarte.cli.main import main\nmain()"
    )
    image = tmp_path / "picture.png"
    image.write_bytes(picture())
    environment = {**os.environ, "ALACARTE_URL": deployment.url, "ALACARTE_TOKEN": deployment.tokens["user"]}

    for command in (["status"], ["sources"], ["predict", str(image), "--task", TASK]):
        done = subprocess.run(
            [sys.executable, "-c", program, "remote", *command], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_without_httpx_the_extra_is_named() -> None:
    program = "import sys; sys.modules['httpx'] = None; from alacarte.cli.main import main; main()"
    command = [sys.executable, "-c", program, "remote", "sources", "--url", "http://127.0.0.1:9", "--token", "t"]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.stderr == "error: this command needs httpx: pip install 'alacarte[client]'\n"
