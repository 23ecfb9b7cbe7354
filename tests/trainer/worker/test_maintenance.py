"""A worker keeps house: whatever fails in it is told, and stops nothing."""

from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.access.caller import OPERATOR
from registry.erasure.request import forget_source
from registry.errors import DatabaseUnreachable
from registry.ids import new_id
from registry.registry import Registry
from registry.storage.keys import source_prefix
from tests.trainer.worker.conftest import on_sqlite
from tests.trainer.worker.fixtures import (
    add_source,
    add_task,
    files_in_scratch,
    prompts_of,
    running,
    wait_for,
    work_off,
    worker_on,
)
from trainer.worker import maintenance
from trainer.worker.maintenance import WorkerMaintenance

pytestmark = on_sqlite


def test_a_worker_carries_out_erasures_and_wipes_the_rooms_of_the_dead(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    forget_source(registry, OPERATOR, source)
    _ = registry.scratch.id
    dead = registry.scratch.folder / str(new_id())
    dead.mkdir()
    dead.with_name(f"{dead.name}.lock").touch()

    work_off(registry, backbone)

    assert list(registry.objects.list_all(source_prefix(source))) == []
    assert files_in_scratch(registry) == []


def test_housekeeping_that_fails_keeps_nobody_from_training(
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

    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: bool(prompts_of(registry, source)), "the prompt")
        assert run.end().published == 1

    failures = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "housekeeping failed"]
    assert failures
    assert {failure["kind"] for failure in failures} == {"RuntimeError"}
    assert "somebody" not in str(failures)


def test_house_is_kept_again_after_a_failure_and_whenever_it_is_nudged(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def fail(_: Registry) -> int:
        calls.append(None)
        raise DatabaseUnreachable("it sleeps")

    monkeypatch.setattr(maintenance, "run_erasures", fail)

    with WorkerMaintenance(registry, every_seconds=3600) as kept:
        wait_for(lambda: len(calls) == 1, "the first time")
        kept.nudge()
        wait_for(lambda: len(calls) == 2, "the second time")
