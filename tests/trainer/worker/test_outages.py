"""A database or store that is unreachable for a while delays a worker, and loses no finished training."""

import time
from collections.abc import Callable
from itertools import chain, repeat
from threading import Event
from unittest.mock import DEFAULT, Mock
from uuid import UUID

import pytest

from registry.errors import DatabaseUnreachable, DomainError, LeaseLost
from registry.ids import new_id
from registry.registry import Registry
from registry.storage.store import StoreUnreachable
from registry.training.lease import Lease, LeasedTask, renew_lease
from registry.training.publish import publish
from registry.training.queue import lease_shard
from tests.registry.database_fixtures import sqlite_only
from tests.servers.processes import wait_until
from tests.trainer.worker.fixtures import ENDLESS, WorkerHarness
from trainer.worker import job, worker
from trainer.worker.job import LeaseHeartbeat
from trainer.worker.worker import JobCounts

pytestmark = sqlite_only

UNREACHABLE = DatabaseUnreachable("the database does not answer: it sleeps")


def flaky(function: Callable[..., object], failures: int, error: DomainError = UNREACHABLE) -> Mock:
    """Return the function with first calls that fail."""
    return Mock(wraps=function, side_effect=chain(repeat(error, failures), repeat(DEFAULT)))


def test_heartbeats_that_fail_do_not_stop_the_training(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    source = harness.add_source(harness.add_task(ENDLESS))
    beats = flaky(renew_lease, failures=3)
    monkeypatch.setattr(job, "renew_lease", beats)

    with harness.run_worker() as run:
        wait_until(lambda: bool(harness.load_shards(source)[0].progress), "a heartbeat that comes through")
        counts = run.end()

    assert beats.call_count > 3
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
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, error: DomainError
) -> None:
    source = harness.add_source()
    publishing = flaky(publish, failures=2, error=error)
    monkeypatch.setattr(job, "publish", publishing)
    monkeypatch.setattr(job, "PUBLISH_RETRY_SECONDS", 0.01)

    counts = harness.train_all()

    assert publishing.call_count == 3
    assert counts == JobCounts(published=1, failed=0, lost=0)
    assert len(harness.load_prompts(source)) == 1


def test_a_commit_without_an_answer_publishes_the_prompt_once(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def publish_without_answer(*arguments: object) -> object:
        prompt = publish(*arguments)  # type: ignore[arg-type]
        calls.append(None)
        if len(calls) == 1:
            raise UNREACHABLE
        return prompt

    source = harness.add_source()
    monkeypatch.setattr(job, "publish", publish_without_answer)

    counts = harness.train_all()

    assert len(calls) == 2
    assert counts == JobCounts(published=1, failed=0, lost=0)
    assert len(harness.load_prompts(source)) == 1


def test_a_store_that_stays_unreachable_is_the_shards_error(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = harness.add_source()
    full = StoreUnreachable("the store has no room: make some")
    monkeypatch.setattr(job, "publish", Mock(side_effect=full))
    monkeypatch.setattr(job, "PUBLISH_TIMEOUT_SECONDS", 0)

    assert harness.train_all().failed == 1

    assert harness.load_shards(source)[0].error == "the store has no room: make some"


def test_a_worker_waits_for_an_unreachable_database(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    source = harness.add_source()
    monkeypatch.setattr(worker, "lease_shard", flaky(lease_shard, failures=2))

    with harness.run_worker() as run:
        wait_until(lambda: bool(harness.load_prompts(source)), "the prompt")
        assert run.end().published == 1
    assert harness.list_scratch() == []


def test_work_once_raises_the_error_of_an_unreachable_database(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "lease_shard", flaky(lease_shard, failures=1))

    with pytest.raises(DatabaseUnreachable, match="it sleeps"):
        harness.make_worker().run(Event(), once=True)
