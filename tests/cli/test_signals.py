"""A command that is told to stop leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.fixtures import TINY, draw

PATIENCE_SECONDS = 120


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_training_that_is_stopped_removes_what_it_unpacked(number: signal.Signals, tmp_path: Path) -> None:
    archive, scratch = tmp_path / "pictures.zip", tmp_path / "scratch"
    pictures = draw(tmp_path / "pictures")
    with zipfile.ZipFile(archive, "w") as packed:
        for picture in sorted(pictures.rglob("*.png")):
            packed.write(picture, picture.relative_to(pictures))
    command = [sys.executable, "-m", "alacarte", "train", str(archive), *TINY, "--shards", "1", "--epochs", "100000"]
    command += ["--out", str(tmp_path / "prompts"), "--scratch", str(scratch)]

    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=_accept_interrupts
    ) as process:
        assert process.stderr is not None
        wait_for(lambda: (tmp_path / "prompts").exists(), process)  # it has unpacked the archive, and goes on
        unpacked = list(scratch.iterdir())
        process.send_signal(number)
        process.stderr.read()
        code = process.wait(PATIENCE_SECONDS)

    assert unpacked
    assert code == 128 + number
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "prompts").iterdir()) == []


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert process.poll() is None, "the command ended by itself"
        assert time.monotonic() < deadline, "the command hangs"
        time.sleep(0.02)


def _accept_interrupts() -> None:
    """A shell that starts tests in the background lets them ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
