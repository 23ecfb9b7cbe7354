"""Ctrl-C while something is sent or waited for: the exit code is 130, and what goes on without you is err."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.fixtures import draw
from tests.cli.service.test_forget import hold_files_elsewhere
from tests.service.deployment import TASK, Deployment

TIMEOUT_SECONDS = 120


@contextmanager
def command(url: str, token: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process, that heeds Ctrl-C also where a shell started the tests in the background."""
    environment = {**os.environ, "ALACARTE_URL": url, "ALACARTE_TOKEN": token}
    with subprocess.Popen(
        [sys.executable, "-m", "alacarte", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupt(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """The exit code, and the lines that were err since."""
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


def test_an_upload_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    large = tmp_path / "large.zip"
    large.write_bytes(bytes(2**25))
    with socket.create_server(("127.0.0.1", 0)) as slow:
        url = f"http://127.0.0.1:{slow.getsockname()[1]}"
        with command(url, "alc_token", "source", "add", "pets", str(large), "--task", TASK) as process:
            connection, _ = slow.accept()
            with connection:
                assert connection.recv(1000).startswith(b"POST /sources?")  # and takes no more
                code, lines = interrupt(process)

    assert (code, lines) == (130, ["error: interrupted: nothing was stored"])


def test_an_upload_that_is_interrupted_after_all_was_sent_does_not_claim_to_know(tmp_path: Path) -> None:
    small = tmp_path / "small.zip"
    small.write_bytes(bytes(1000))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with command(url, "alc_token", "source", "add", "pets", str(small), "--task", TASK) as process:
            connection, _ = silent.accept()
            with connection:
                taken = b""
                while not taken.endswith(bytes(1000)):
                    taken += connection.recv(10_000)
                code, lines = interrupt(process)

    assert (code, len(lines)) == (130, 1)
    assert "`alacarte source list` shows whether it was stored" in lines[0]
