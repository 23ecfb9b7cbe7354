"""Job folders are removed when their job ends, or by the next sweep if its process was killed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from registry.storage.scratch import ScratchSpace, ScratchUnavailable
from tests.registry.factories import run_at_once

DYING = """
import os, signal, sys
from pathlib import Path
from uuid import UUID
from registry.storage.scratch import ScratchSpace
with ScratchSpace(Path(sys.argv[1])).job_folder(UUID(sys.argv[2])) as folder:
    (folder / "picture.png").write_bytes(b"somebody's face")
    print("there", flush=True)
    sys.stdin.read()
"""


def list_entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("scratch-id"))


def start_process(folder: Path, name: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", DYING, str(folder), str(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    return process


def test_a_job_folder_is_private_and_removed_afterwards(tmp_path: Path) -> None:
    space = ScratchSpace(tmp_path / "scratch")
    with space.job_folder(uuid4()) as folder:
        (folder / "picture.png").write_bytes(b"somebody's face")
        assert folder.stat().st_mode & 0o777 == 0o700

    assert list_entries(space.folder) == []


def test_a_job_folder_is_removed_when_its_job_fails(tmp_path: Path) -> None:
    space = ScratchSpace(tmp_path)
    with pytest.raises(RuntimeError), space.job_folder(uuid4()) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "picture.png").write_bytes(b"somebody's face")
        raise RuntimeError

    assert list_entries(tmp_path) == []


def test_a_scratch_space_of_an_earlier_version_keeps_its_id(tmp_path: Path) -> None:
    (tmp_path / "home-id").write_text(str(earlier := uuid4()))
    assert {ScratchSpace(tmp_path).id, ScratchSpace(tmp_path).id} == {earlier}


def test_a_scratch_space_keeps_its_id(tmp_path: Path) -> None:
    ids = run_at_once(*[lambda: ScratchSpace(tmp_path / "new").id] * 8)

    assert len(ids) == 8
    assert set(ids) == {ScratchSpace(tmp_path / "new").id}
    assert ScratchSpace(tmp_path / "other").id not in ids


def test_a_sweep_removes_the_job_folders_of_dead_processes_only(tmp_path: Path) -> None:
    space, dead, living = ScratchSpace(tmp_path), uuid4(), uuid4()
    killed, alive = start_process(tmp_path, dead), start_process(tmp_path, living)
    try:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert (tmp_path / str(dead) / "picture.png").exists()

        with space.job_folder(uuid4()) as mine:
            in_use = space.sweep()

            assert mine.exists()
        assert living in in_use
        assert dead not in in_use
        assert not (tmp_path / str(dead)).exists()
        assert (tmp_path / str(living) / "picture.png").exists()
    finally:
        alive.communicate()
        killed.communicate()
    assert list_entries(tmp_path) == []


def test_a_job_folder_in_use_is_not_created_again(tmp_path: Path) -> None:
    space, name = ScratchSpace(tmp_path), uuid4()
    with space.job_folder(name), pytest.raises(ScratchUnavailable, match="cannot be created"), space.job_folder(name):
        pass


def test_job_folders_can_be_created_during_sweeps(tmp_path: Path) -> None:
    space, stop = ScratchSpace(tmp_path), threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            space.sweep()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for _ in range(300):
            with space.job_folder(uuid4()) as folder:
                (folder / "file").write_bytes(b"x")
                assert (folder / "file").exists()
    finally:
        stop.set()
        sweeper.join()

    assert list_entries(tmp_path) == []


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ScratchUnavailable, match="file/scratch"):
        _ = ScratchSpace(tmp_path / "file" / "scratch").id


def test_a_sweep_leaves_foreign_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.lock").write_text("")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1.tex").write_text("years of work")

    assert ScratchSpace(tmp_path).sweep() == set()

    assert (tmp_path / "thesis" / "chapter-1.tex").exists()
