"""A prompt is published once, by who has the work, and only if it fits; what is refused leaves nothing behind."""

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
    FACTS,
    LOSSES,
    add_shard,
    expire,
    holding_now,
    keys_of,
    lease_before_others,
    prompts_of,
    shard_now,
    take,
)


def published_lines(database: Database) -> list[LogEntry]:
    with database.read_transaction() as session:
        return list(session.scalars(select(LogEntry).where(LogEntry.action == "prompt.published")))


def test_a_published_prompt_has_its_row_and_its_object(registry: Registry) -> None:
    shard = add_shard(registry.database)
    lease = take(registry, "ann")

    prompt = publish(registry, lease, b"numbers", FACTS)

    assert (prompt.shard_id, prompt.source_id, prompt.task_id) == (shard.id, shard.source_id, lease.task.id)
    assert (prompt.generation, prompt.samples, prompt.labels, prompt.worker) == (1, 2, ["cat", "dog"], "ann")
    assert (prompt.size_bytes, prompt.artifact_metadata) == (7, {"settings": {"epochs": 3}})
    assert prompt.published_at.tzinfo is not None
    assert registry.objects.read(prompt.key, prompt.digest) == b"numbers"
    assert keys_of(registry) == [prompt.key]
    assert [row.id for row in prompts_of(registry.database)] == [prompt.id]


def test_a_published_shard_is_no_work_and_starts_afresh(registry: Registry) -> None:
    add_shard(registry.database, attempts=4, priority=10, error="earlier")
    lease = take(registry)

    publish(registry, lease, b"numbers", FACTS)

    shard = shard_now(registry.database, lease.shard_id)
    assert (shard.lease_id, shard.worker, shard.expires_at, shard.progress) == (None, None, None, None)
    assert (shard.attempts, shard.priority, shard.error, shard.not_before) == (0, 0, None, None)
    assert lease_next_shard(registry, "bob") is None


def test_publishing_is_in_the_log_by_ids_and_counts(registry: Registry) -> None:
    add_shard(registry.database)
    lease = take(registry)

    prompt = publish(registry, lease, b"numbers", FACTS)

    [line] = published_lines(registry.database)
    assert line.actor is None
    assert line.subject == {
        "prompt": str(prompt.id),
        "shard": str(lease.shard_id),
        "generation": 1,
        "source": str(lease.source_id),
        "task": str(lease.task.id),
        "samples": 2,
    }


def test_who_lost_the_lease_writes_nothing(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    monkeypatch.setattr(failpoints, "on_hit", reached.append)
    for loss, lose in LOSSES.items():
        lease = lease_before_others(registry)
        lose(registry, lease)

        with pytest.raises(LeaseLost):
            publish(registry, lease, b"numbers", FACTS)

        assert reached == [], loss
        assert keys_of(registry) == [], loss
        assert prompts_of(registry.database) == [], loss


def test_who_loses_the_lease_after_writing_publishes_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases: list[Lease] = []

    def lose_now(point: str) -> None:
        assert point == "publish: object written"
        assert keys_of(registry) == [leases[-1].prompt_key]
        LOSSES[loss](registry, leases[-1])

    monkeypatch.setattr(failpoints, "on_hit", lose_now)
    for loss in LOSSES:
        leases.append(lease_before_others(registry))

        with pytest.raises(LeaseLost):
            publish(registry, leases[-1], b"numbers", FACTS)

        assert keys_of(registry) == [], loss
        assert prompts_of(registry.database) == [], loss
        assert published_lines(registry.database) == [], loss


def test_the_next_worker_publishes_what_the_lost_one_could_not(registry: Registry) -> None:
    add_shard(registry.database)
    lost = take(registry, "ann")
    expire(registry.database, lost)
    lease = take(registry, "bob")

    prompt = publish(registry, lease, b"numbers", FACTS)
    with pytest.raises(LeaseLost):
        publish(registry, lost, b"numbers", FACTS)

    assert keys_of(registry) == [prompt.key]
    assert [row.worker for row in prompts_of(registry.database)] == ["bob"]


def test_publishing_again_gives_the_same_prompt(registry: Registry) -> None:
    add_shard(registry.database)
    lease = take(registry)

    first = publish(registry, lease, b"numbers", FACTS)
    second = publish(registry, lease, b"numbers", FACTS)

    assert second.id == first.id
    assert len(published_lines(registry.database)) == 1
    assert keys_of(registry) == [first.key]


def test_a_lost_answer_to_a_commit_is_made_good_by_asking_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_shard(registry.database)
    lease = take(registry)

    def fail(point: str) -> None:
        if point == "publish: committed":
            raise DatabaseUnreachable("the connection broke")

    monkeypatch.setattr(failpoints, "on_hit", fail)
    with pytest.raises(DatabaseUnreachable):
        publish(registry, lease, b"numbers", FACTS)

    prompt = publish(registry, lease, b"numbers", FACTS)

    assert registry.objects.read(prompt.key, prompt.digest) == b"numbers"
    assert len(published_lines(registry.database)) == 1


def test_a_database_that_goes_away_may_have_committed_so_the_object_stays_until_asked_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_shard(registry.database)
    lease = take(registry)
    with monkeypatch.context() as patch:
        patch.setattr(
            "registry.training.publish._append_log", lambda *_: (_ for _ in ()).throw(DatabaseUnreachable("away"))
        )
        with pytest.raises(DatabaseUnreachable):
            publish(registry, lease, b"numbers", FACTS)
    assert keys_of(registry) == [lease.prompt_key]

    prompt = publish(registry, lease, b"numbers", FACTS)

    assert keys_of(registry) == [prompt.key]
    assert len(published_lines(registry.database)) == 1


def test_an_attempt_that_breaks_off_there_removes_what_was_not_committed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_shard(registry.database)
    monkeypatch.setattr(
        "registry.training.publish._append_log", lambda *_: (_ for _ in ()).throw(DatabaseUnreachable("away"))
    )

    leases: list[Lease] = []
    with pytest.raises(DatabaseUnreachable), lease_shard(registry, "ann") as work:
        assert work is not None
        leases.append(work[0])
        publish(registry, work[0], b"numbers", FACTS)

    assert keys_of(registry) == []
    assert holding_now(registry.database, leases[0]) is None
