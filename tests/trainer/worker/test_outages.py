"""A database or store that is away for a while costs time, and no training that could be saved."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.errors import DatabaseUnreachable, DomainError, LeaseLost
from registry.ids import new_id
from registry.registry import Registry
from registry.storage.errors import StoreUnreachable
from registry.training.lease import Lease, LeasedTask, renew_lease
from registry.training.publish import publish
from registry.training.queue import lease_shard
from tests.trainer.worker.conftest import on_sqlite
from tests.trainer.worker.fixtures import (
    ENDLESS,
    RECIPE,
    add_source,
    add_task,
    files_in_scratch,
    prompts_of,
    running,
    shards_of,
    wait_for,
    work_off,
    worker_on,
)
from trainer.worker import heartbeat, job, worker
from trainer.worker.heartbeat import LeaseHeartbeat
from trainer.worker.worker import JobCounts

pytestmark = on_sqlite

AWAY = DatabaseUnreachable("the database does not answer: it sleeps")


class Flaky:
    """Calls what it stands for, except that the first calls fail."""

    def __init__(self, function: Callable[..., object], failures: int, error: DomainError = AWAY) -> None:
        self._function = function
        self._error = error
        self.failures = failures
        self.calls = 0

    def __call__(self, *arguments: object, **named: object) -> object:
        self.calls += 1
        if self.calls <= self.failures:
            raise self._error
        return self._function(*arguments, **named)


def test_heartbeats_that_fail_do_not_stop_the_training(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    beats = Flaky(renew_lease, failures=3)
    monkeypatch.setattr(heartbeat, "renew_lease", beats)

    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: bool(shards_of(registry, source)[0].progress), "a heartbeat that comes through")
        tally = run.end()

    assert beats.calls > 3
    assert tally == JobCounts(published=0, failed=0, lost=0)


def lease_of(seconds: float) -> Lease:
    task = LeasedTask(UUID(int=0), "task", "vit", None, None, {}, None)
    return Lease(new_id(), "ann", seconds, UUID(int=1), UUID(int=2), task, 1, 0, ())


def test_a_lease_that_could_not_be_renewed_in_time_is_lost(registry: Registry) -> None:
    fresh = LeaseHeartbeat(registry.database, lease_of(60), time.monotonic(), every_seconds=1)
    late = LeaseHeartbeat(registry.database, lease_of(60), time.monotonic() - 61, every_seconds=1)

    fresh.check()

    with pytest.raises(LeaseLost):
        late.check()


@pytest.mark.parametrize("error", [AWAY, StoreUnreachable("the store sleeps: wake it")])
def test_a_finished_prompt_is_published_as_soon_as_somebody_answers(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch, error: DomainError
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    flaky = Flaky(publish, failures=2, error=error)
    monkeypatch.setattr(job, "publish", flaky)
    monkeypatch.setattr(job, "AGAIN_SECONDS", 0.01)

    tally = work_off(registry, backbone)

    assert flaky.calls == 3
    assert tally == JobCounts(published=1, failed=0, lost=0)
    assert len(prompts_of(registry, source)) == 1


def test_a_prompt_whose_commit_was_not_heard_of_is_published_once(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def publish_unheard(*arguments: object) -> object:
        prompt = publish(*arguments)  # type: ignore[arg-type]
        calls.append(None)
        if len(calls) == 1:
            raise AWAY
        return prompt

    source = add_source(registry, add_task(registry), pictures)
    monkeypatch.setattr(job, "publish", publish_unheard)

    tally = work_off(registry, backbone)

    assert len(calls) == 2
    assert tally == JobCounts(published=1, failed=0, lost=0)
    assert len(prompts_of(registry, source)) == 1


def test_a_store_that_stays_away_is_the_shards_error(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    full = StoreUnreachable("the store has no room: make some")
    monkeypatch.setattr(job, "publish", Flaky(publish, failures=10**9, error=full))
    monkeypatch.setattr(job, "PATIENCE_SECONDS", 0)

    assert work_off(registry, backbone).failed == 1

    assert shards_of(registry, source)[0].error == "the store has no room: make some"


def test_a_worker_waits_for_a_database_that_is_away(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry, RECIPE), pictures)
    monkeypatch.setattr(worker, "lease_shard", Flaky(lease_shard, failures=2))

    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: bool(prompts_of(registry, source)), "the prompt")
        assert run.end().published == 1
    assert files_in_scratch(registry) == []


def test_a_worker_that_works_once_tells_that_the_database_is_away(
    registry: Registry, backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "lease_shard", Flaky(lease_shard, failures=1))

    with pytest.raises(DatabaseUnreachable, match="it sleeps"):
        worker_on(registry, backbone).run(Event(), once=True)
