"""`alacarte work` as a process of its own: told to stop, it gives back; killed, it leaves nothing that stays."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.registry import Registry
from tests.cli.fixtures import run
from tests.trainer.worker.conftest import on_sqlite
from tests.trainer.worker.fixtures import (
    ENDLESS,
    RECIPE,
    add_source,
    add_task,
    files_in_scratch,
    is_training,
    let_leases_run_out,
    pictures_in_scratch,
    prompts_of,
    set_recipe,
    shards_of,
    wait_for,
    worker_on,
)
from tests.trainer.worker.worker_processes import Nursery, opened_nursery
from trainer.worker.worker import JobCounts

WORK = ["work", "--weights", "random", "--name", "carl", "--json"]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with opened_nursery() as nursery:
        yield nursery


def test_a_killed_workers_shard_is_trained_by_another_and_its_files_are_wiped(
    registry: Registry,
    environment: dict[str, str],
    nursery: Nursery,
    backbone: Backbone,
    pictures: Path,
    tmp_path: Path,
) -> None:
    task = add_task(registry, ENDLESS)
    source = add_source(registry, task, pictures)
    with nursery.command(WORK, environment, tmp_path) as carl:
        wait_for(lambda: is_training(registry, source), "the training")
        os.kill(carl.pid, signal.SIGKILL)
        assert carl.wait() == -signal.SIGKILL
    assert len(pictures_in_scratch(registry)) == 12
    assert [shard.worker for shard in shards_of(registry, source)] == ["carl"]
    set_recipe(registry, task, RECIPE)
    let_leases_run_out(registry)

    tally = worker_on(registry, backbone, "bob").run(Event(), once=True)

    assert tally == JobCounts(published=1, failed=0, lost=0)
    assert [prompt.worker for prompt in prompts_of(registry, source)] == ["bob"]
    assert files_in_scratch(registry) == []


@on_sqlite
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_gives_its_shard_back_at_once(
    registry: Registry,
    environment: dict[str, str],
    nursery: Nursery,
    pictures: Path,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with nursery.command(WORK, environment, tmp_path) as carl:
        wait_for(lambda: is_training(registry, source), "the training")
        os.kill(carl.pid, number)
        code = carl.wait()

    assert code == 0, carl.err.read_text()
    assert json.loads(carl.out.read_text()) == {"published": 0, "failed": 0, "lost": 0}
    assert "given back: shard" in carl.err.read_text()
    [shard] = shards_of(registry, source)
    assert (shard.lease_id, shard.attempts, shard.error) == (None, 0, None)
    assert files_in_scratch(registry) == []


@pytest.fixture
def at_home(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of this test is the one that commands find."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)


@on_sqlite
@pytest.mark.usefixtures("at_home")
def test_working_once_trains_all_there_is_and_says_how_it_went(registry: Registry, pictures: Path) -> None:
    source = add_source(registry, add_task(registry), pictures, shards=2)
    add_source(registry, add_task(registry, {"epochs": 0}, "bad"), pictures, name="other")

    ended = run("work", "--once", "--weights", "random", "--json", "--cache-gb", "0.01")

    assert ended.code == 1
    assert ended.error == "1 of 3 trainings failed: `alacarte source show` tells why"
    assert ended.document == {"published": 2, "failed": 1, "lost": 0}
    assert len(prompts_of(registry, source)) == 2
    assert "published: shard " in ended.err
    assert "reason epochs must be at least 1, not 0" in ended.err
    assert "backbone: vit_tiny_patch16_224 with random weights" in ended.err


@on_sqlite
@pytest.mark.usefixtures("at_home")
def test_working_once_without_work_ends() -> None:
    ended = run("work", "--once")

    assert (ended.code, ended.out) == (0, "")
    assert ended.err.splitlines()[-1].endswith("published 0, failed 0, lost 0")
