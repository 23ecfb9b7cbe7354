"""A database or store that is unreachable for a while delays a worker, and loses no finished training."""

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
from registry.storage.store import StoreUnreachable
from registry.training.lease import Lease, LeasedTask, renew_lease
from registry.training.publish import publish
from registry.training.queue import lease_shard
from tests.registry.database_fixtures import sqlite_only
from tests.trainer.worker.fixtures import (
    ENDLESS,
    RECIPE,
    add_source,
    add_task,
    list_scratch,
    load_prompts,
    load_shards,
    make_worker,
    run_in_thread,
    train_all,
    wait_for,
)
from trainer.worker import job, worker
from trainer.worker.job import LeaseHeartbeat
from trainer.worker.worker import JobCounts

pytestmark = sqlite_only

UNREACHABLE = DatabaseUnreachable("the database does not answer: it sleeps")


class FlakyCall:
    """A function whose first calls fail."""

    def __init__(self, function: Callable[..., object], failures: int, error: DomainError = UNREACHABLE) -> None:
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
    beats = FlakyCall(renew_lease, failures=3)
    monkeypatch.setattr(job, "renew_lease", beats)

    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: bool(load_shards(registry, source)[0].progress), "a heartbeat that comes through")
        counts = run.end()

    assert beats.calls > 3
    assert counts == JobCounts(published=0, failed=0, lost=0)


def make_lease(seconds: float) -> Lease:
    task = LeasedTask(UUID(int=0), "task", "vit", None, None, {}, None)
    return Lease(new_id(), "ann", seconds, UUID(int=1), UUID(int=2), task, 1, 0, ())


def test_a_lease_that_could_not_be_renewed_in_time_is_lost(registry: Registry) -> None:
    fresh = LeaseHeartbeat(registry.database, make_lease(60), time.monotonic(), every_seconds=1)
    late = LeaseHeartbeat(registry.database, make_lease(60), time.monotonic() - 61, every_seconds=1)

    fresh.check()

    with pytest.raises(LeaseLost):
        late.check()


@pytest.mark.parametrize("error", [UNREACHABLE, StoreUnreachable("the store sleeps: wake it")])
def test_publishing_is_retried_until_the_database_and_the_store_answer(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch, error: DomainError
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    flaky = FlakyCall(publish, failures=2, error=error)
    monkeypatch.setattr(job, "publish", flaky)
    monkeypatch.setattr(job, "PUBLISH_RETRY_SECONDS", 0.01)

    counts = train_all(registry, backbone)

    assert flaky.calls == 3
    assert counts == JobCounts(published=1, failed=0, lost=0)
    assert len(load_prompts(registry, source)) == 1


def test_a_commit_without_an_answer_publishes_the_prompt_once(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def publish_without_answer(*arguments: object) -> object:
        prompt = publish(*arguments)  # type: ignore[arg-type]
        calls.append(None)
        if len(calls) == 1:
            raise UNREACHABLE
        return prompt

    source = add_source(registry, add_task(registry), pictures)
    monkeypatch.setattr(job, "publish", publish_without_answer)

    counts = train_all(registry, backbone)

    assert len(calls) == 2
    assert counts == JobCounts(published=1, failed=0, lost=0)
    assert len(load_prompts(registry, source)) == 1


def test_a_store_that_stays_unreachable_is_the_shards_error(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    full = StoreUnreachable("the store has no room: make some")
    monkeypatch.setattr(job, "publish", FlakyCall(publish, failures=10**9, error=full))
    monkeypatch.setattr(job, "PUBLISH_TIMEOUT_SECONDS", 0)

    assert train_all(registry, backbone).failed == 1

    assert load_shards(registry, source)[0].error == "the store has no room: make some"


def test_a_worker_waits_for_an_unreachable_database(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry, RECIPE), pictures)
    monkeypatch.setattr(worker, "lease_shard", FlakyCall(lease_shard, failures=2))

    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: bool(load_prompts(registry, source)), "the prompt")
        assert run.end().published == 1
    assert list_scratch(registry) == []


def test_work_once_raises_the_error_of_an_unreachable_database(
    registry: Registry, backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "lease_shard", FlakyCall(lease_shard, failures=1))

    with pytest.raises(DatabaseUnreachable, match="it sleeps"):
        make_worker(registry, backbone).run(Event(), once=True)
