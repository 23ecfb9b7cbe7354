"""A command that a signal stops leaves nothing behind."""

import os
import signal
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.fixtures import TINY, draw, running
from tests.servers.processes import wait_until

TIMEOUT_SECONDS = 120


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_training_that_is_stopped_removes_what_it_unpacked(number: signal.Signals, tmp_path: Path) -> None:
    archive, scratch = tmp_path / "pictures.zip", tmp_path / "scratch"
    pictures = draw(tmp_path / "pictures")
    with zipfile.ZipFile(archive, "w") as packed:
        for picture in sorted(pictures.rglob("*.png")):
            packed.write(picture, picture.relative_to(pictures))
    command = [sys.executable, "-m", "alacarte", "train", str(archive), *TINY, "--shards", "1", "--epochs", "100000"]
    command += ["--out", str(tmp_path / "prompts"), "--scratch", str(scratch)]

    def has_unpacked() -> bool:
        assert process.poll() is None, "the command ended by itself"
        return (tmp_path / "prompts").exists()

    with running(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        wait_until(has_unpacked, "the unpacked archive", wait_s=TIMEOUT_SECONDS)
        unpacked = list(scratch.iterdir())
        process.send_signal(number)
        process.communicate(timeout=TIMEOUT_SECONDS)

    assert unpacked
    assert process.returncode == 128 + number
    assert list(scratch.iterdir()) == []
    assert list((tmp_path / "prompts").iterdir()) == []
