"""A prompt is published once, by the worker with the lease, and only if it fits; otherwise nothing is left."""

from contextlib import nullcontext
from unittest.mock import Mock

import pytest
from sqlalchemy import select

from registry import failpoints
from registry.db.database import Database
from registry.db.models.log import LogEntry
from registry.errors import DatabaseUnreachable, LeaseLost
from registry.registry import Registry
from registry.training.lease import Lease
from registry.training.publish import publish
from registry.training.queue import lease_next_shard, lease_shard
from tests.registry.training.fixtures import (
    METADATA,
    WAYS_TO_LOSE_A_LEASE,
    add_shard,
    expire_lease,
    lease_new_shard,
    lease_one,
    list_keys,
    list_prompts,
    read_claim,
    read_shard,
)


def published_entries(database: Database) -> list[LogEntry]:
    with database.read_transaction() as session:
        return list(session.scalars(select(LogEntry).where(LogEntry.action == "prompt.published")))


def test_a_published_prompt_has_its_row_and_its_object(registry: Registry) -> None:
    shard = add_shard(registry.database)
    lease = lease_one(registry, "ann")

    prompt = publish(registry, lease, b"numbers", METADATA)

    assert (prompt.shard_id, prompt.source_id, prompt.task_id) == (shard.id, shard.source_id, lease.task.id)
    assert (prompt.generation, prompt.samples, prompt.labels, prompt.worker) == (1, 2, ["cat", "dog"], "ann")
    assert (prompt.size_bytes, prompt.artifact_metadata) == (7, {"settings": {"epochs": 3}})
    assert prompt.published_at.tzinfo is not None
    assert registry.objects.read(prompt.key, prompt.digest) == b"numbers"
    assert list_keys(registry) == [prompt.key]
    assert [row.id for row in list_prompts(registry.database)] == [prompt.id]


def test_a_published_shard_is_not_leased_and_its_attempts_are_reset(registry: Registry) -> None:
    lease = lease_new_shard(registry, attempts=4, priority=10, error="earlier")

    publish(registry, lease, b"numbers", METADATA)

    shard = read_shard(registry.database, lease.shard_id)
    assert (shard.lease_id, shard.worker, shard.expires_at, shard.progress) == (None, None, None, None)
    assert (shard.attempts, shard.priority, shard.error, shard.not_before) == (0, 0, None, None)
    assert lease_next_shard(registry, "bob") is None


def test_publishing_is_logged_by_ids_and_counts(registry: Registry) -> None:
    lease = lease_new_shard(registry)

    prompt = publish(registry, lease, b"numbers", METADATA)

    [line] = published_entries(registry.database)
    assert line.actor is None
    assert line.subject == {
        "prompt": str(prompt.id),
        "shard": str(lease.shard_id),
        "generation": 1,
        "source": str(lease.source_id),
        "task": str(lease.task.id),
        "samples": 2,
    }


def test_a_worker_that_lost_its_lease_writes_no_object(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    monkeypatch.setattr(failpoints, "on_hit", reached.append)
    for loss, lose in WAYS_TO_LOSE_A_LEASE.items():
        lease = lease_new_shard(registry)
        lose(registry, lease)

        with pytest.raises(LeaseLost):
            publish(registry, lease, b"numbers", METADATA)

        assert reached == [], loss
        assert list_keys(registry) == [], loss
        assert list_prompts(registry.database) == [], loss


def test_a_worker_that_loses_its_lease_after_writing_publishes_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases: list[Lease] = []

    def lose_lease(point: str) -> None:
        assert point == "publish: object written"
        assert list_keys(registry) == [leases[-1].prompt_key]
        WAYS_TO_LOSE_A_LEASE[loss](registry, leases[-1])

    monkeypatch.setattr(failpoints, "on_hit", lose_lease)
    for loss in WAYS_TO_LOSE_A_LEASE:
        leases.append(lease_new_shard(registry))

        with pytest.raises(LeaseLost):
            publish(registry, leases[-1], b"numbers", METADATA)

        assert list_keys(registry) == [], loss
        assert list_prompts(registry.database) == [], loss
        assert published_entries(registry.database) == [], loss


def test_the_next_worker_publishes_what_the_lost_one_could_not(registry: Registry) -> None:
    lost = lease_new_shard(registry, "ann")
    expire_lease(registry.database, lost)
    lease = lease_one(registry, "bob")

    prompt = publish(registry, lease, b"numbers", METADATA)
    with pytest.raises(LeaseLost):
        publish(registry, lost, b"numbers", METADATA)

    assert list_keys(registry) == [prompt.key]
    assert [row.worker for row in list_prompts(registry.database)] == ["bob"]


@pytest.mark.parametrize("is_result_lost", [False, True])
def test_publishing_again_gives_the_same_prompt(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, is_result_lost: bool
) -> None:
    lease = lease_new_shard(registry)

    def fail(point: str) -> None:
        if point == "publish: committed" and is_result_lost:
            raise DatabaseUnreachable("the connection broke")

    monkeypatch.setattr(failpoints, "on_hit", fail)
    with pytest.raises(DatabaseUnreachable) if is_result_lost else nullcontext():
        publish(registry, lease, b"numbers", METADATA)
    [first] = list_prompts(registry.database)

    again = publish(registry, lease, b"numbers", METADATA)

    assert again.id == first.id
    assert registry.objects.read(again.key, again.digest) == b"numbers"
    assert len(published_entries(registry.database)) == 1
    assert list_keys(registry) == [first.key]


@pytest.fixture
def unreachable_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.training.publish._append_log", Mock(side_effect=DatabaseUnreachable("away")))


@pytest.mark.usefixtures("unreachable_commit")
def test_the_object_stays_when_it_is_unknown_whether_the_commit_succeeded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lease_new_shard(registry)
    with pytest.raises(DatabaseUnreachable):
        publish(registry, lease, b"numbers", METADATA)
    assert list_keys(registry) == [lease.prompt_key]
    monkeypatch.undo()

    prompt = publish(registry, lease, b"numbers", METADATA)

    assert list_keys(registry) == [prompt.key]
    assert len(published_entries(registry.database)) == 1


@pytest.mark.usefixtures("unreachable_commit")
def test_an_attempt_that_ends_there_removes_the_uncommitted_object(registry: Registry) -> None:
    add_shard(registry.database)
    leases: list[Lease] = []

    with pytest.raises(DatabaseUnreachable), lease_shard(registry, "ann") as work:
        assert work is not None
        leases.append(work[0])
        publish(registry, work[0], b"numbers", METADATA)

    assert list_keys(registry) == []
    assert read_claim(registry.database, leases[0]) is None
