"""Ctrl-C while something is sent or waited for: the exit code is 130, and the message says what continues."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.fixtures import draw, running
from tests.cli.service.test_forget import hold_files_elsewhere
from tests.service.deployment import TASK, Deployment

TIMEOUT_SECONDS = 120


def command(url: str, token: str, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    environment = {**os.environ, "ALACARTE_URL": url, "ALACARTE_TOKEN": token}
    return running([sys.executable, "-m", "alacarte", *arguments], stdout=subprocess.PIPE, env=environment)


def interrupt(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Press Ctrl-C; return the exit code and the lines that are printed after it."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    return process.returncode, err.splitlines()


def test_waiting_for_an_erasure_is_interrupted_and_the_erasure_continues(deployment: Deployment) -> None:
    source = deployment.add_source()
    hold_files_elsewhere(deployment, source)

    with command(deployment.url, deployment.tokens["admin"], "source", "forget", str(source)) as process:
        assert process.stderr is not None
        begun = process.stderr.readline()
        code, lines = interrupt(process)

    [erasure] = re.findall(r"erasure ([0-9a-f-]{36}) removes the rest", begun)
    hint = f"the erasure continues: `alacarte erasure show {erasure}` shows its state"
    assert (code, lines) == (130, [f"error: interrupted; {hint}"])
    answer = deployment.request("admin", "GET", f"/erasures/{erasure}").json()
    assert answer["state"] == "running"


def test_waiting_for_training_is_interrupted_and_the_pictures_stay(deployment: Deployment, tmp_path: Path) -> None:
    folder, name = draw(tmp_path / "p", each=2), deployment.new_name("pets")

    with command(
        deployment.url, deployment.tokens["owner"], "source", "add", name, str(folder), "--task", TASK, "--wait"
    ) as process:
        assert process.stderr is not None
        [source] = re.findall(r"are in source ([0-9a-f-]{36})", process.stderr.readline())
        code, lines = interrupt(process)

    assert (code, len(lines)) == (130, 1)
    assert "the pictures are stored, and the training continues" in lines[0]
    assert deployment.request("owner", "GET", f"/sources/{source}").json()["samples"] == 6


@pytest.mark.parametrize(
    ("size", "read", "message"),
    [
        pytest.param(2**25, 100, "error: interrupted: nothing was stored", id="nothing is stored before all was sent"),
        pytest.param(1000, 1000, "`alacarte source list` shows whether it was stored", id="unknown after all was sent"),
    ],
)
def test_an_interrupted_upload_says_what_was_stored(size: int, read: int, message: str, tmp_path: Path) -> None:
    archive = tmp_path / "pictures.zip"
    archive.write_bytes(bytes(size))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with command(url, "alc_token", "source", "add", "pets", str(archive), "--task", TASK) as process:
            connection, _ = silent.accept()
            with connection:
                received = b""
                while not received.endswith(bytes(read)):
                    received += connection.recv(1000)
                code, lines = interrupt(process)

    assert received.startswith(b"POST /sources?")
    assert (code, len(lines)) == (130, 1)
    assert message in lines[0]
