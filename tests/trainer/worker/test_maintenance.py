"""A worker runs maintenance; its failures are logged and do not stop the training."""

from unittest.mock import Mock

import pytest

from registry.access.caller import OPERATOR
from registry.erasure.request import forget_source
from registry.errors import DatabaseUnreachable
from registry.ids import new_id
from registry.registry import Registry
from registry.storage.keys import source_prefix
from tests.registry.database_fixtures import sqlite_only
from tests.servers.processes import wait_until
from tests.trainer.worker.fixtures import WorkerHarness
from trainer.worker import maintenance
from trainer.worker.maintenance import WorkerMaintenance

pytestmark = sqlite_only


def test_a_worker_runs_erasures_and_removes_the_files_of_dead_workers(harness: WorkerHarness) -> None:
    source = harness.add_source()
    forget_source(harness.registry, OPERATOR, source)
    _ = harness.registry.scratch.id
    dead = harness.registry.scratch.folder / str(new_id())
    dead.mkdir()
    dead.with_name(f"{dead.name}.lock").touch()

    harness.train_all()

    assert list(harness.registry.objects.list_all(source_prefix(source))) == []
    assert harness.list_scratch() == []


def test_failing_maintenance_does_not_stop_the_training(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(maintenance, "run_erasures", Mock(side_effect=RuntimeError("a name of somebody")))
    source = harness.add_source()

    with harness.run_worker() as run:
        wait_until(lambda: bool(harness.load_prompts(source)), "the prompt")
        assert run.end().published == 1

    failures = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "maintenance failed"]
    assert failures
    assert {failure["kind"] for failure in failures} == {"RuntimeError"}
    assert "somebody" not in str(failures)


def test_maintenance_runs_again_after_a_failure_when_requested(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=DatabaseUnreachable("it sleeps"))
    monkeypatch.setattr(maintenance, "run_erasures", failing)

    with WorkerMaintenance(registry, every_seconds=3600) as maintained:
        wait_until(lambda: failing.call_count == 1, "the first time")
        maintained.run_soon()
        wait_until(lambda: failing.call_count == 2, "the second time")
