"""A worker runs maintenance; its failures are logged and do not stop the training."""

from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.access.caller import OPERATOR
from registry.erasure.request import forget_source
from registry.errors import DatabaseUnreachable
from registry.ids import new_id
from registry.registry import Registry
from registry.storage.keys import source_prefix
from tests.registry.database_fixtures import sqlite_only
from tests.trainer.worker.fixtures import (
    add_source,
    add_task,
    list_scratch,
    load_prompts,
    make_worker,
    run_in_thread,
    train_all,
    wait_for,
)
from trainer.worker import maintenance
from trainer.worker.maintenance import WorkerMaintenance

pytestmark = sqlite_only


def test_a_worker_runs_erasures_and_removes_the_files_of_dead_workers(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    forget_source(registry, OPERATOR, source)
    _ = registry.scratch.id
    dead = registry.scratch.folder / str(new_id())
    dead.mkdir()
    dead.with_name(f"{dead.name}.lock").touch()

    train_all(registry, backbone)

    assert list(registry.objects.list_all(source_prefix(source))) == []
    assert list_scratch(registry) == []


def test_failing_maintenance_does_not_stop_the_training(
    registry: Registry,
    backbone: Backbone,
    pictures: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = RuntimeError("a name of somebody")

    def fail(_: Registry) -> int:
        raise error

    monkeypatch.setattr(maintenance, "run_erasures", fail)
    source = add_source(registry, add_task(registry), pictures)

    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: bool(load_prompts(registry, source)), "the prompt")
        assert run.end().published == 1

    failures = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "maintenance failed"]
    assert failures
    assert {failure["kind"] for failure in failures} == {"RuntimeError"}
    assert "somebody" not in str(failures)


def test_maintenance_runs_again_after_a_failure_when_requested(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def fail(_: Registry) -> int:
        calls.append(None)
        raise DatabaseUnreachable("it sleeps")

    monkeypatch.setattr(maintenance, "run_erasures", fail)

    with WorkerMaintenance(registry, every_seconds=3600) as maintained:
        wait_for(lambda: len(calls) == 1, "the first time")
        maintained.run_soon()
        wait_for(lambda: len(calls) == 2, "the second time")
