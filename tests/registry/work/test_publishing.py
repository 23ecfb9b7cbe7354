"""A prompt is published once, by who has the work, and only if it fits; what is refused leaves nothing behind."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import select

from registry import faults
from registry.attempt import leased
from registry.database import Database
from registry.errors import Conflict, DatabaseUnreachable, DomainError, Invalid, LeaseLost
from registry.leasing import Lease
from registry.models.audit import AuditLine
from registry.models.collections import Task
from registry.models.prompts import Prompt
from registry.publishing import IdentityMismatch, PublishedFacts, publish
from registry.registry import Registry
from registry.work import lease_work
from tests.registry.work.arrange import (
    FACTS,
    LOSSES,
    add_shard,
    add_source,
    add_task,
    expire,
    holding_now,
    lease_before_others,
    shard_now,
    take,
)


def prompts_of(database: Database) -> list[Prompt]:
    with database.reading() as session:
        return list(session.scalars(select(Prompt)))


def published_lines(database: Database) -> list[AuditLine]:
    with database.reading() as session:
        return list(session.scalars(select(AuditLine).where(AuditLine.action == "prompt.published")))


def keys_of(registry: Registry) -> list[str]:
    return [found.key for found in registry.objects.traces("")]


def test_a_published_prompt_has_its_row_and_its_object(registry: Registry) -> None:
    shard = add_shard(registry.database)
    lease = take(registry, "ann")

    prompt = publish(registry, lease, b"numbers", FACTS)

    assert (prompt.shard_id, prompt.source_id, prompt.task_id) == (shard.id, shard.source_id, lease.task.id)
    assert (prompt.generation, prompt.samples, prompt.labels, prompt.worker) == (1, 2, ["cat", "dog"], "ann")
    assert (prompt.size_bytes, prompt.facts) == (7, {"settings": {"epochs": 3}})
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
    assert lease_work(registry, "bob") is None


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
    monkeypatch.setattr(faults, "on_reach", reached.append)
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

    monkeypatch.setattr(faults, "on_reach", lose_now)
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

    monkeypatch.setattr(faults, "on_reach", fail)
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
        patch.setattr("registry.publishing._log", lambda *_: (_ for _ in ()).throw(DatabaseUnreachable("away")))
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
    monkeypatch.setattr("registry.publishing._log", lambda *_: (_ for _ in ()).throw(DatabaseUnreachable("away")))

    leases: list[Lease] = []
    with pytest.raises(DatabaseUnreachable), leased(registry, "ann") as work:
        assert work is not None
        leases.append(work[0])
        publish(registry, work[0], b"numbers", FACTS)

    assert keys_of(registry) == []
    assert holding_now(registry.database, leases[0]) is None


def test_the_first_prompt_settles_the_backbone_of_its_task(registry: Registry) -> None:
    source = add_source(registry.database)
    for _ in range(3):
        add_shard(registry.database, source)
    publish(registry, take(registry), b"one", FACTS)

    publish(registry, take(registry), b"two", FACTS)
    with pytest.raises(IdentityMismatch):
        publish(registry, take(registry), b"three", replace(FACTS, identity="b" * 64))

    with registry.database.reading() as session:
        assert session.get_one(Task, source.task_id).identity == FACTS.identity
    assert len(keys_of(registry)) == len(prompts_of(registry.database)) == 2


def test_of_two_first_prompts_at_once_one_settles_the_backbone(registry: Registry) -> None:
    task = add_task(registry.database)
    for _ in range(2):
        add_shard(registry.database, add_source(registry.database, task))
    leases = [take(registry), take(registry)]
    together = threading.Barrier(2)

    def run(lease: Lease, identity: str) -> str:
        together.wait()
        try:
            publish(registry, lease, identity.encode(), replace(FACTS, identity=identity))
        except IdentityMismatch:
            return "refused"
        return identity

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run, leases, ["a" * 64, "b" * 64]))

    assert outcomes.count("refused") == 1
    with registry.database.reading() as session:
        assert session.get_one(Task, task.id).identity in outcomes


UNFIT: dict[str, tuple[PublishedFacts, type[DomainError]]] = {
    "a label that the task has not": (replace(FACTS, labels=("cat", "zebra")), Conflict),
    "no label": (replace(FACTS, labels=()), Invalid),
    "more samples than its shard": (replace(FACTS, samples=3), Invalid),
    "no samples": (replace(FACTS, samples=0), Invalid),
    "full attention": (replace(FACTS, facts={"settings": {"attention": "full"}}), Invalid),
    "full attention, told outside the settings": (replace(FACTS, facts={"attention": "full"}), Invalid),
}


def test_a_prompt_that_does_not_fit_is_refused(registry: Registry) -> None:
    task = add_task(registry.database, labels=["cat", "dog", "horse"])
    add_shard(registry.database, add_source(registry.database, task))
    lease = take(registry)

    for fault, (facts, refusal) in UNFIT.items():
        with pytest.raises(refusal):
            publish(registry, lease, b"numbers", facts)

        assert keys_of(registry) == [], fault
        assert prompts_of(registry.database) == [], fault
    with registry.database.reading() as session:
        assert session.get_one(Task, task.id).identity is None
