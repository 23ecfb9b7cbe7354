"""The transaction that requests an erasure stops serving, and nobody else loses anything."""

from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import func, select

from registry.access.caller import OPERATOR, Caller
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Sample, Shard, Tombstone
from registry.db.models.erasures import Erasure
from registry.db.models.log import LogEntry
from registry.db.models.prompts import ReleaseLoss, ReleasePrompt
from registry.db.models.users import Grant
from registry.erasure.request import RETRAIN_PRIORITY, forget_sample, forget_shard, forget_source
from registry.erasure.runner import finish_erasure
from registry.erasure.status import list_erasures, show_erasure
from registry.errors import Forbidden, NotFound
from registry.ids import new_id
from registry.ingest.tombstones import tombstone_hash
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import prompts_prefix, sample_key, shard_prefix, source_prefix
from tests.registry.database_fixtures import sqlite_only
from tests.registry.erasure.fixtures import (
    FORGET,
    SeededSource,
    count_target_rows,
    list_keys,
    list_served_shards,
    list_shard_keys,
    read_shard,
    read_source,
    seed_source,
)
from tests.registry.factories import make_grant, make_sample, make_user, run_at_once


def another_owner(registry: Registry) -> Caller:
    with registry.database.write_transaction() as session:
        return Caller(make_user(session).id, "predictor")


def lease_directly(registry: Registry, shard: UUID) -> None:
    with registry.database.write_transaction() as session:
        row = session.get_one(Shard, shard)
        row.lease_id, row.worker, row.expires_at = new_id(), "w", seconds_from_now(60)
        row.progress, row.error, row.attempts = 0.5, "bad", 3


def list_losses(registry: Registry, seeded: SeededSource) -> set[UUID]:
    with registry.database.read_transaction() as session:
        mine = select(ReleaseLoss.shard_id).where(ReleaseLoss.release_id == seeded.release)
        return set(session.scalars(mine))


def count_pins(registry: Registry, seeded: SeededSource) -> int:
    with registry.database.read_transaction() as session:
        mine = select(func.count()).select_from(ReleasePrompt).where(ReleasePrompt.release_id == seeded.release)
        return session.scalar(mine) or 0


def list_tombstones(registry: Registry) -> set[str]:
    with registry.database.read_transaction() as session:
        return set(session.scalars(select(Tombstone.hash)))


def erasures(registry: Registry, seeded: SeededSource) -> set[UUID]:
    with registry.database.read_transaction() as session:
        return set(session.scalars(select(Erasure.id).where(Erasure.source_id == seeded.source)))


def test_a_forgotten_source_is_gone_for_everyone_at_once(registry: Registry) -> None:
    seeded, other = seed_source(registry), seed_source(registry)
    before = count_target_rows(registry, other.target), list_keys(registry, source_prefix(other.source))
    lease_directly(registry, seeded.first_shard)

    erasure = forget_source(registry, seeded.owner, seeded.source)

    source = read_source(registry, seeded)
    assert source is not None
    assert (source.name, source.erasure_id) == (None, erasure.id)
    assert list_served_shards(registry, seeded) == []
    with registry.database.read_transaction() as session:
        assert session.scalars(select(Grant).where(Grant.source_id == seeded.source)).all() == []
    assert list_losses(registry, seeded) == set(seeded.shards)
    assert count_pins(registry, seeded) == 0
    shard = read_shard(registry, seeded.first_shard)
    assert shard is not None
    assert shard.lease_id is None
    assert (count_target_rows(registry, other.target), list_keys(registry, source_prefix(other.source))) == before
    assert count_pins(registry, other) == 2
    assert list_losses(registry, other) == set()


def test_a_forgotten_shard_leaves_its_source_to_serve(registry: Registry) -> None:
    seeded = seed_source(registry)
    gone, remaining = seeded.shards

    erasure = forget_shard(registry, seeded.owner, seeded.source, gone)

    assert list_served_shards(registry, seeded) == [remaining]
    assert list_losses(registry, seeded) == {gone}
    assert erasure.prefixes == [shard_prefix(seeded.source, gone)]
    shard, source = read_shard(registry, gone), read_source(registry, seeded)
    assert shard is not None
    assert shard.erasure_id == erasure.id
    assert source is not None
    assert source.name is not None
    assert list_tombstones(registry) == {tombstone_hash(source.key, digest) for digest in seeded.shards[gone]}


def test_a_forgotten_sample_sends_its_shard_back_to_training_ahead_of_others(registry: Registry) -> None:
    seeded = seed_source(registry)
    gone, remaining = seeded.shards
    digest = seeded.first_sample
    lease_directly(registry, gone)

    erasure = forget_sample(registry, seeded.owner, seeded.source, digest)

    assert list_served_shards(registry, seeded) == [remaining]
    assert erasure.prefixes == [sample_key(seeded.source, gone, digest), prompts_prefix(seeded.source, gone, 1)]
    shard, source = read_shard(registry, gone), read_source(registry, seeded)
    assert shard is not None
    assert (shard.generation, shard.attempts, shard.error, shard.lease_id) == (2, 0, None, None)
    assert shard.priority == RETRAIN_PRIORITY
    assert source is not None
    assert list_tombstones(registry) == {tombstone_hash(source.key, digest)}
    with registry.database.read_transaction() as session:
        left = session.scalars(select(Sample.digest).where(Sample.shard_id == gone)).all()
    assert left == seeded.shards[gone][1:]


def test_a_shard_goes_with_its_last_sample(registry: Registry) -> None:
    seeded = seed_source(registry, samples=1)

    erasure = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)

    assert read_shard(registry, seeded.first_shard) is None
    assert erasure.prefixes == [shard_prefix(seeded.source, seeded.first_shard)]
    assert finish_erasure(registry, erasure.id).state == "complete"
    assert list_shard_keys(registry, seeded, seeded.first_shard) == []
    assert len(list_keys(registry)) == 2


@sqlite_only
def test_the_epoch_is_the_number_of_the_log_entry_of_the_request(registry: Registry) -> None:
    seeded = seed_source(registry)

    erasure = forget_source(registry, seeded.owner, seeded.source)

    with registry.database.read_transaction() as session:
        line = session.get_one(LogEntry, erasure.epoch)
        assert session.get_one(Erasure, erasure.id).epoch == erasure.epoch
    assert line.action == "erasure.began"
    assert line.actor == seeded.owner.user_id
    assert line.subject["erasure"] == str(erasure.id)
    assert (line.subject["prompts"], line.subject["pinned"], line.subject["grants"]) == (2, 2, 1)


@sqlite_only
def test_an_erasure_records_all_claims_to_wait_for(registry: Registry) -> None:
    seeded, other = seed_source(registry), seed_source(registry)
    shard, sibling = seeded.shards
    upload, mine, beside, foreign = (new_id() for _ in range(4))
    with registry.database.write_transaction() as session:
        write_claims.add_claim(session, upload, "upload", seeded.source)
        write_claims.add_claim(session, mine, "train", seeded.source, shard=shard)
        write_claims.add_claim(session, beside, "train", seeded.source, shard=sibling)
        write_claims.add_claim(session, foreign, "train", other.source, shard=other.first_shard)

    of_sample = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)
    of_source = forget_source(registry, seeded.owner, seeded.source)

    assert set(of_sample.write_claims) == {str(upload), str(mine)}
    assert set(of_source.write_claims) == {str(upload), str(mine), str(beside)}


def test_a_repeated_request_returns_the_same_erasure(registry: Registry) -> None:
    seeded = seed_source(registry, shards=3)
    shard, other, _ = seeded.shards
    sample = seeded.shards[other][0]
    of_shard = forget_shard(registry, seeded.owner, seeded.source, shard).id
    of_sample = forget_sample(registry, seeded.owner, seeded.source, sample).id

    for caller in (seeded.owner, OPERATOR):
        assert forget_shard(registry, caller, seeded.source, shard).id == of_shard
        assert forget_sample(registry, caller, seeded.source, sample).id == of_sample
    retrained = read_shard(registry, other)
    assert retrained is not None
    assert retrained.generation == 2
    of_source = forget_source(registry, seeded.owner, seeded.source).id
    for caller in (seeded.owner, OPERATOR):
        assert forget_source(registry, caller, seeded.source).id == of_source
    finish_erasure(registry, of_source)
    assert forget_source(registry, seeded.owner, seeded.source).completed_at is not None
    assert erasures(registry, seeded) == {of_shard, of_sample, of_source}


def test_a_picture_its_shard_another_shard_and_the_source_have_each_an_erasure(registry: Registry) -> None:
    seeded = seed_source(registry, shards=3)
    first, second, _ = seeded.shards

    begun = [
        forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample),
        forget_shard(registry, seeded.owner, seeded.source, first),
        forget_shard(registry, seeded.owner, seeded.source, second),
        forget_source(registry, seeded.owner, seeded.source),
    ]

    assert erasures(registry, seeded) == {erasure.id for erasure in begun}
    assert len(erasures(registry, seeded)) == 4


def test_a_readmitted_picture_is_forgotten_by_a_new_erasure(registry: Registry) -> None:
    seeded = seed_source(registry)
    first = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)
    with registry.database.write_transaction() as session:
        shard = session.get_one(Shard, seeded.first_shard)
        assert make_sample(session, shard, f"picture 0 of {shard.id}".encode()).digest == seeded.first_sample

    second = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)

    assert second.id != first.id
    assert forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample).id == second.id


def test_what_another_user_has_forgotten_is_not_found(registry: Registry) -> None:
    seeded, other, nobody = seed_source(registry, shards=3), seed_source(registry), another_owner(registry)
    first, second, third = seeded.shards
    forget_sample(registry, seeded.owner, seeded.source, seeded.shards[third][0])
    forget_shard(registry, OPERATOR, seeded.source, first)
    forget_sample(registry, OPERATOR, seeded.source, seeded.shards[second][0])

    with pytest.raises(NotFound):
        forget_shard(registry, seeded.owner, seeded.source, first)
    with pytest.raises(NotFound):
        forget_sample(registry, seeded.owner, seeded.source, seeded.shards[second][0])
    with pytest.raises(NotFound):  # it went with its shard, and no erasure is of it alone
        forget_sample(registry, OPERATOR, seeded.source, seeded.shards[first][0])
    forget_source(registry, OPERATOR, seeded.source)
    for caller in (seeded.owner, other.owner, nobody):
        with pytest.raises(NotFound):
            forget_source(registry, caller, seeded.source)


def test_several_requests_at_once_return_one_erasure(registry: Registry) -> None:
    seeded = seed_source(registry)

    outcomes = run_at_once(*[lambda: forget_source(registry, seeded.owner, seeded.source).id] * 4)

    assert len(outcomes) == 4
    assert set(outcomes) == erasures(registry, seeded)
    assert len(erasures(registry, seeded)) == 1


def test_only_those_with_the_right_may_forget(registry: Registry) -> None:
    seeded, nobody = seed_source(registry), another_owner(registry)
    before = count_target_rows(registry, seeded.target)

    with pytest.raises(NotFound):
        forget_source(registry, nobody, seeded.source)
    with registry.database.write_transaction() as session:
        make_grant(session, nobody.user_id, seeded.source, "manage")
    for forget in FORGET.values():
        with pytest.raises(Forbidden):
            forget(registry, replace(seeded, owner=nobody))

    assert count_target_rows(registry, seeded.target) == before | {"grants": 2}
    with registry.database.write_transaction() as session:
        make_grant(session, nobody.user_id, seeded.source, "forget")
    assert forget_source(registry, nobody, seeded.source).requested_by == nobody.user_id


@sqlite_only
def test_an_erasure_is_visible_to_its_requester_and_to_admins(registry: Registry) -> None:
    seeded, other, nobody = seed_source(registry), seed_source(registry), another_owner(registry)
    first = forget_source(registry, seeded.owner, seeded.source)
    second = forget_source(registry, OPERATOR, other.source)

    with registry.database.read_transaction() as session:
        assert [seen.id for seen in list_erasures(session, seeded.owner).items] == [first.id]
        assert [seen.id for seen in list_erasures(session, OPERATOR).items] == [first.id, second.id]
        assert list_erasures(session, nobody).items == ()
        page = list_erasures(session, OPERATOR, limit=1)
        assert [seen.id for seen in list_erasures(session, OPERATOR, after=page.next).items] == [second.id]
        shown = show_erasure(session, seeded.owner, first.id)
        assert (shown.state, shown.receipt, shown.steps[0].name) == ("running", None, "unserve")
        for caller, erasure in ((nobody, first), (seeded.owner, second)):
            with pytest.raises(NotFound):
                show_erasure(session, caller, erasure.id)
