"""Each shard without a prompt is leased to one worker at a time, in order, until its heartbeat stops."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import select

from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Source
from registry.db.models.write_claims import WriteClaim
from registry.errors import Invalid, LeaseLost
from registry.ids import new_id
from registry.registry import Registry
from registry.storage.keys import sample_key
from registry.training.lease import renew_lease
from registry.training.queue import lease_next_shard
from tests.registry.factories import make_prompt, make_sample, make_shard, make_source, make_task
from tests.registry.training.fixtures import (
    WAYS_TO_LOSE_A_LEASE,
    add_shard,
    add_source,
    add_task,
    expire_lease,
    lease_new_shard,
    lease_one,
    mark_forgotten,
    read_claim,
    read_shard,
    seconds_until,
)


def test_a_lease_has_everything_that_training_needs(registry: Registry) -> None:
    with registry.database.write_transaction() as session:
        task = make_task(session, name="pets", labels=["cat", "dog"])
        task.recipe, task.size, task.identity = {"epochs": 7}, 160, "b" * 64
        shard = make_shard(session, make_source(session, task))
        samples = [make_sample(session, shard, f"{n}".encode(), label) for n, label in enumerate(["dog", "cat", "dog"])]

    lease = lease_one(registry, worker="ann")

    assert (lease.worker, lease.shard_id, lease.source_id) == ("ann", shard.id, shard.source_id)
    assert (lease.generation, lease.seed) == (1, shard.seed)
    assert (lease.task.id, lease.task.name, lease.task.backbone) == (task.id, "pets", "vit_tiny_patch16_224")
    assert (lease.task.size, lease.task.identity) == (160, "b" * 64)
    assert (lease.task.recipe, lease.task.labels) == ({"epochs": 7}, ("cat", "dog"))
    listed = [(sample.digest, sample.label, sample.key, sample.size_bytes) for sample in lease.samples]
    assert listed == [
        (sample.digest, sample.label, sample_key(shard.source_id, shard.id, sample.digest), 1)
        for sample in sorted(samples, key=lambda sample: sample.digest)
    ]


def test_a_lease_has_a_write_claim_with_its_object_and_scratch_folder(registry: Registry) -> None:
    shard = add_shard(registry.database)

    lease = lease_one(registry)

    claim = read_claim(registry.database, lease)
    assert claim is not None
    assert (claim.purpose, claim.source_id, claim.shard_id) == ("train", shard.source_id, shard.id)
    assert (claim.scratch_id, claim.prefixes) == (registry.scratch.id, [lease.prompt_key])


def test_a_shard_is_leased_once(registry: Registry) -> None:
    shard = add_shard(registry.database)

    lease, second = lease_one(registry), lease_next_shard(registry, "bob")

    assert lease.shard_id == shard.id
    assert second is None


def test_shards_that_need_no_training_now_are_not_leased(registry: Registry) -> None:
    for columns in (
        {"is_remote": True},
        {"is_paused": True},
        {"erasure_id": new_id()},
        {"not_before": seconds_from_now(60)},
    ):
        add_shard(registry.database, **columns)
    mark_forgotten(registry.database, add_shard(registry.database).source_id)
    with registry.database.write_transaction() as session:
        source = make_source(session, make_task(session))
        make_prompt(session, make_shard(session, source, samples=2))  # trained already
        make_shard(session, source, samples=0)

    assert lease_next_shard(registry, "ann") is None


def test_shards_are_leased_by_priority_then_fewest_attempts_and_often_failed_ones_last(registry: Registry) -> None:
    source = add_source(registry.database)
    last = add_shard(registry.database, source, attempts=3)
    third = add_shard(registry.database, source)
    fourth = add_shard(registry.database, source)
    unlucky = add_shard(registry.database, source, priority=2, attempts=9)
    second = add_shard(registry.database, source, priority=1)

    order = [lease_one(registry).shard_id for _ in range(5)]

    assert order == [second.id, third.id, fourth.id, unlucky.id, last.id]


def test_a_worker_can_be_limited_to_some_tasks(registry: Registry) -> None:
    tasks, other = add_task(registry.database), add_task(registry.database)
    add_shard(registry.database, add_source(registry.database, other), priority=5)
    shard = add_shard(registry.database, add_source(registry.database, tasks))

    lease = lease_next_shard(registry, "ann", tasks={tasks.id})

    assert lease is not None
    assert lease.shard_id == shard.id
    assert lease_next_shard(registry, "ann", tasks={tasks.id}) is None
    assert lease_next_shard(registry, "ann", tasks=()) is None


def test_a_lease_without_a_name_or_a_duration_is_refused(registry: Registry) -> None:
    add_shard(registry.database)

    for worker, seconds in [("", 60.0), (" \n", 60.0), ("ann", 0.0), ("ann", float("nan"))]:
        with pytest.raises(Invalid):
            lease_next_shard(registry, worker, seconds=seconds)


def test_an_expired_lease_is_taken_over_and_the_shard_says_who_lost_it_and_when(registry: Registry) -> None:
    lost = lease_new_shard(registry, worker="ann")
    expire_lease(registry.database, lost)
    expired_at = read_shard(registry.database, lost.shard_id).expires_at

    lease = lease_one(registry, worker="bob")

    shard = read_shard(registry.database, lease.shard_id)
    assert (lease.shard_id, shard.worker, shard.attempts, shard.progress) == (lost.shard_id, "bob", 2, 0.0)
    assert shard.error == f"ann lost its lease at {expired_at:%Y-%m-%d %H:%M:%S} UTC"


def test_a_shard_that_was_published_while_it_was_chosen_is_left_alone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry.database.write_transaction() as session:
        shard = make_shard(session, make_source(session, make_task(session)), samples=2)
        make_prompt(session, shard)
    # As the statement would, whose view of the prompts is older than the shard that it locks.
    monkeypatch.setattr(
        "registry.training.queue._most_urgent", lambda candidate, _: select(candidate.id).join(Source).limit(1)
    )

    lease = lease_next_shard(registry, "ann")

    after_all = read_shard(registry.database, shard.id)
    assert lease is None
    assert (after_all.lease_id, after_all.worker, after_all.attempts) == (None, None, 0)
    with registry.database.read_transaction() as session:
        assert session.scalars(select(WriteClaim)).all() == []


def test_a_heartbeat_renews_the_lease_and_its_claim_and_records_the_progress(registry: Registry) -> None:
    lease = lease_new_shard(registry)

    renew_lease(registry.database, lease, progress=0.25, seconds=1000)

    shard, claim = read_shard(registry.database, lease.shard_id), read_claim(registry.database, lease)
    assert claim is not None
    assert shard.progress == 0.25
    assert 900 < seconds_until(registry.database, shard.expires_at) <= 1000
    assert 900 < seconds_until(registry.database, claim.expires_at) <= 1000


def test_progress_is_clamped_to_0_and_1(registry: Registry) -> None:
    lease = lease_new_shard(registry)

    for reported, recorded in [(-1.0, 0.0), (7.0, 1.0), (float("nan"), 0.0)]:
        renew_lease(registry.database, lease, progress=reported)
        assert read_shard(registry.database, lease.shard_id).progress == recorded


def test_a_lost_lease_cannot_be_renewed(registry: Registry) -> None:
    for loss, lose in WAYS_TO_LOSE_A_LEASE.items():
        lease = lease_new_shard(registry)
        lose(registry, lease)
        before = read_shard(registry.database, lease.shard_id)

        with pytest.raises(LeaseLost):
            renew_lease(registry.database, lease, progress=0.5)

        after = read_shard(registry.database, lease.shard_id)
        assert (after.lease_id, after.expires_at) == (before.lease_id, before.expires_at), loss
        assert after.progress == before.progress, loss


def test_workers_at_once_get_different_shards(registry: Registry) -> None:
    with registry.database.write_transaction() as session:
        sources = [make_source(session, make_task(session)) for _ in range(2)]
        shards = {make_shard(session, source, samples=1).id for source in sources for _ in range(12)}
    together = threading.Barrier(6)

    def work(number: int) -> list[UUID]:
        together.wait()
        taken = []
        while (lease := lease_next_shard(registry, f"worker {number}")) is not None:
            taken.append(lease.shard_id)
        return taken

    with ThreadPoolExecutor(6) as pool:
        taken = [shard for shards in pool.map(work, range(6)) for shard in shards]

    assert sorted(taken) == sorted(shards)
    with registry.database.read_transaction() as session:
        assert Counter(session.scalars(select(WriteClaim.shard_id))) == Counter(shards)
