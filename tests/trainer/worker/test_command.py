"""`alacarte work` in a process of its own, stopped by signals and killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.cli.fixtures import run
from tests.registry.database_fixtures import sqlite_only
from tests.trainer.worker.fixtures import ENDLESS, RECIPE, WorkerHarness
from trainer.worker.worker import JobCounts

ROOT = Path(__file__).parents[3]
WORK = ["work", "--weights", "random", "--name", "carl", "--json"]
# A shell may start processes that ignore Ctrl-C.
PROGRAM = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
PROGRAM += "from alacarte.cli.main import main; main()"


@pytest.fixture
def worker_process(
    harness: WorkerHarness, environment: dict[str, str], tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """`alacarte work`, which writes to the files out and err."""
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (
        (tmp_path / "out").open("wb") as out,
        (tmp_path / "err").open("wb") as err,
        subprocess.Popen([sys.executable, "-c", PROGRAM, *WORK], env=environment, stdout=out, stderr=err) as process,
    ):
        yield process
        process.kill()


def test_a_killed_workers_shard_is_trained_by_another_and_its_files_are_wiped(
    harness: WorkerHarness, worker_process: subprocess.Popen[bytes]
) -> None:
    task = harness.add_task(ENDLESS)
    source = harness.add_source(task)
    harness.wait_for_training(source)
    worker_process.kill()
    assert worker_process.wait() == -signal.SIGKILL
    assert len(harness.list_scratch_pictures()) == 12
    assert [shard.worker for shard in harness.load_shards(source)] == ["carl"]
    harness.set_recipe(task, RECIPE)
    harness.expire_leases()

    counts = harness.make_worker("bob").run(Event(), once=True)

    assert counts == JobCounts(published=1, failed=0, lost=0)
    assert [prompt.worker for prompt in harness.load_prompts(source)] == ["bob"]
    assert harness.list_scratch() == []


@sqlite_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_makes_the_worker_release_its_shard_at_once(
    harness: WorkerHarness, worker_process: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    source = harness.add_source(harness.add_task(ENDLESS))
    harness.wait_for_training(source)

    worker_process.send_signal(number)

    assert worker_process.wait(60) == 0, (tmp_path / "err").read_text()
    assert json.loads((tmp_path / "out").read_text()) == {"published": 0, "failed": 0, "lost": 0}
    assert "shard released: shard" in (tmp_path / "err").read_text()
    [shard] = harness.load_shards(source)
    assert (shard.lease_id, shard.attempts, shard.error) == (None, 0, None)
    assert harness.list_scratch() == []


@pytest.fixture
def command_environment(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands use the registry of the test."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)


@sqlite_only
@pytest.mark.usefixtures("command_environment")
def test_work_once_trains_all_shards_and_prints_the_outcomes(harness: WorkerHarness) -> None:
    source = harness.add_source(shards=2)
    harness.add_source(harness.add_task({"epochs": 0}, "bad"), name="other")

    ended = run("work", "--once", "--weights", "random", "--json", "--cache-gb", "0.01")

    assert ended.code == 1
    assert ended.error == "1 of 3 trainings failed: `alacarte source show` shows why"
    assert ended.document == {"published": 2, "failed": 1, "lost": 0}
    assert len(harness.load_prompts(source)) == 2
    assert "published: shard " in ended.err
    assert "reason epochs must be at least 1, not 0" in ended.err
    assert "backbone: vit_tiny_patch16_224 with random weights" in ended.err


@sqlite_only
@pytest.mark.usefixtures("command_environment")
def test_work_once_without_work_ends() -> None:
    ended = run("work", "--once")

    assert (ended.code, ended.out) == (0, "")
    assert ended.err.splitlines()[-1].endswith("published 0, failed 0, lost 0")
