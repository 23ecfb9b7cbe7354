"""The transaction that begins an erasure stops serving, and nobody else loses anything by it."""

import threading
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

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
from tests.registry.erasure.fixtures import Planted, keys_of, plant, rows_of, served, shard_row, source_row
from tests.registry.factories import make_sample, make_user


def stranger(registry: Registry) -> Caller:
    with registry.database.write_transaction() as session:
        return Caller(make_user(session).id, "predictor")


def lease(registry: Registry, shard: UUID) -> None:
    with registry.database.write_transaction() as session:
        session.execute(
            update(Shard)
            .where(Shard.id == shard)
            .values(
                lease_id=new_id(), worker="w", expires_at=seconds_from_now(60), progress=0.5, error="bad", attempts=3
            )
        )


def losses(registry: Registry, planted: Planted) -> set[UUID]:
    with registry.database.read_transaction() as session:
        mine = select(ReleaseLoss.shard_id).where(ReleaseLoss.release_id == planted.release)
        return set(session.scalars(mine))


def pinned(registry: Registry, planted: Planted) -> int:
    with registry.database.read_transaction() as session:
        mine = select(func.count()).select_from(ReleasePrompt).where(ReleasePrompt.release_id == planted.release)
        return session.scalar(mine) or 0


def marks(registry: Registry) -> set[str]:
    with registry.database.read_transaction() as session:
        return set(session.scalars(select(Tombstone.hash)))


def erasures(registry: Registry, planted: Planted) -> set[UUID]:
    with registry.database.read_transaction() as session:
        return set(session.scalars(select(Erasure.id).where(Erasure.source_id == planted.source)))


def test_a_forgotten_source_is_gone_for_everyone_at_once(registry: Registry) -> None:
    planted, other = plant(registry), plant(registry)
    before = rows_of(registry, other.target), keys_of(registry, source_prefix(other.source))
    lease(registry, planted.first_shard)

    erasure = forget_source(registry, planted.owner, planted.source)

    source = source_row(registry, planted)
    assert source is not None
    assert (source.name, source.erasure_id) == (None, erasure.id)
    assert served(registry, planted) == []
    with registry.database.read_transaction() as session:
        assert session.scalars(select(Grant).where(Grant.source_id == planted.source)).all() == []
    assert losses(registry, planted) == set(planted.shards)
    assert pinned(registry, planted) == 0
    shard = shard_row(registry, planted.first_shard)
    assert shard is not None
    assert shard.lease_id is None
    assert (rows_of(registry, other.target), keys_of(registry, source_prefix(other.source))) == before
    assert pinned(registry, other) == 2
    assert losses(registry, other) == set()


def test_a_forgotten_shard_leaves_its_source_to_serve(registry: Registry) -> None:
    planted = plant(registry)
    gone, kept = planted.shards

    erasure = forget_shard(registry, planted.owner, planted.source, gone)

    assert served(registry, planted) == [kept]
    assert losses(registry, planted) == {gone}
    assert erasure.prefixes == [shard_prefix(planted.source, gone)]
    shard, source = shard_row(registry, gone), source_row(registry, planted)
    assert shard is not None
    assert shard.erasure_id == erasure.id
    assert source is not None
    assert source.name is not None
    assert marks(registry) == {tombstone_hash(source.key, digest) for digest in planted.shards[gone]}


def test_a_forgotten_sample_sends_its_shard_back_to_training_ahead_of_others(registry: Registry) -> None:
    planted = plant(registry)
    gone, kept = planted.shards
    digest = planted.first_sample
    lease(registry, gone)

    erasure = forget_sample(registry, planted.owner, planted.source, digest)

    assert served(registry, planted) == [kept]
    assert erasure.prefixes == [
        sample_key(planted.source, gone, digest),
        prompts_prefix(planted.source, gone, 1),
    ]
    shard, source = shard_row(registry, gone), source_row(registry, planted)
    assert shard is not None
    assert (shard.generation, shard.attempts, shard.error, shard.lease_id) == (2, 0, None, None)
    assert shard.priority == RETRAIN_PRIORITY
    assert source is not None
    assert marks(registry) == {tombstone_hash(source.key, digest)}
    with registry.database.read_transaction() as session:
        left = session.scalars(select(Sample.digest).where(Sample.shard_id == gone)).all()
    assert left == planted.shards[gone][1:]


def test_a_shard_goes_with_its_last_sample(registry: Registry) -> None:
    planted = plant(registry, samples=1)

    erasure = forget_sample(registry, planted.owner, planted.source, planted.first_sample)

    assert shard_row(registry, planted.first_shard) is None
    assert erasure.prefixes == [shard_prefix(planted.source, planted.first_shard)]


@pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)
def test_the_epoch_is_the_line_of_the_log_that_began_it(registry: Registry) -> None:
    planted = plant(registry)

    erasure = forget_source(registry, planted.owner, planted.source)

    with registry.database.read_transaction() as session:
        line = session.get_one(LogEntry, erasure.epoch)
        assert session.get_one(Erasure, erasure.id).epoch == erasure.epoch
    assert line.action == "erasure.began"
    assert line.actor == planted.owner.user_id
    assert line.subject["erasure"] == str(erasure.id)
    assert (line.subject["prompts"], line.subject["pinned"], line.subject["grants"]) == (2, 2, 1)


@pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)
def test_all_who_may_hold_bytes_are_on_record(registry: Registry) -> None:
    planted, other = plant(registry), plant(registry)
    shard, sibling = planted.shards
    upload, mine, beside, foreign = (new_id() for _ in range(4))
    with registry.database.write_transaction() as session:
        write_claims.add_claim(session, upload, "upload", planted.source)
        write_claims.add_claim(session, mine, "train", planted.source, shard=shard)
        write_claims.add_claim(session, beside, "train", planted.source, shard=sibling)
        write_claims.add_claim(session, foreign, "train", other.source, shard=other.first_shard)

    of_sample = forget_sample(registry, planted.owner, planted.source, planted.first_sample)
    of_source = forget_source(registry, planted.owner, planted.source)

    assert set(of_sample.write_claims) == {str(upload), str(mine)}
    assert set(of_source.write_claims) == {str(upload), str(mine), str(beside)}


def test_whoever_asks_again_is_told_of_the_same_erasure(registry: Registry) -> None:
    planted = plant(registry, shards=3)
    shard, other, _ = planted.shards
    sample = planted.shards[other][0]
    of_shard = forget_shard(registry, planted.owner, planted.source, shard).id
    of_sample = forget_sample(registry, planted.owner, planted.source, sample).id

    for caller in (planted.owner, OPERATOR):
        assert forget_shard(registry, caller, planted.source, shard).id == of_shard
        assert forget_sample(registry, caller, planted.source, sample).id == of_sample
    retrained = shard_row(registry, other)
    assert retrained is not None
    assert retrained.generation == 2
    of_source = forget_source(registry, planted.owner, planted.source).id
    for caller in (planted.owner, OPERATOR):
        assert forget_source(registry, caller, planted.source).id == of_source
    finish_erasure(registry, of_source)
    assert forget_source(registry, planted.owner, planted.source).completed_at is not None
    assert erasures(registry, planted) == {of_shard, of_sample, of_source}


def test_a_picture_its_shard_another_shard_and_the_source_have_each_an_erasure(registry: Registry) -> None:
    planted = plant(registry, shards=3)
    first, second, _ = planted.shards

    begun = [
        forget_sample(registry, planted.owner, planted.source, planted.first_sample),
        forget_shard(registry, planted.owner, planted.source, first),
        forget_shard(registry, planted.owner, planted.source, second),
        forget_source(registry, planted.owner, planted.source),
    ]

    assert erasures(registry, planted) == {erasure.id for erasure in begun}
    assert len(erasures(registry, planted)) == 4


def test_a_picture_that_came_again_is_forgotten_by_an_erasure_of_its_own(registry: Registry) -> None:
    planted = plant(registry)
    first = forget_sample(registry, planted.owner, planted.source, planted.first_sample)
    with registry.database.write_transaction() as session:
        shard = session.get_one(Shard, planted.first_shard)
        assert make_sample(session, shard, f"picture 0 of {shard.id}".encode()).digest == planted.first_sample

    second = forget_sample(registry, planted.owner, planted.source, planted.first_sample)

    assert second.id != first.id
    assert forget_sample(registry, planted.owner, planted.source, planted.first_sample).id == second.id


def test_what_somebody_else_had_forgotten_is_not_there(registry: Registry) -> None:
    planted, other, nobody = plant(registry, shards=3), plant(registry), stranger(registry)
    first, second, third = planted.shards
    forget_sample(registry, planted.owner, planted.source, planted.shards[third][0])
    forget_shard(registry, OPERATOR, planted.source, first)
    forget_sample(registry, OPERATOR, planted.source, planted.shards[second][0])

    with pytest.raises(NotFound):
        forget_shard(registry, planted.owner, planted.source, first)
    with pytest.raises(NotFound):
        forget_sample(registry, planted.owner, planted.source, planted.shards[second][0])
    with pytest.raises(NotFound):  # it went with its shard, and no erasure is of it alone
        forget_sample(registry, OPERATOR, planted.source, planted.shards[first][0])
    forget_source(registry, OPERATOR, planted.source)
    for caller in (planted.owner, other.owner, nobody):
        with pytest.raises(NotFound):
            forget_source(registry, caller, planted.source)


def test_of_several_that_forget_at_once_all_are_told_of_one_erasure(registry: Registry) -> None:
    planted = plant(registry)
    outcomes: list[UUID] = []
    gate = threading.Barrier(4)

    def forget() -> None:
        gate.wait()
        outcomes.append(forget_source(registry, planted.owner, planted.source).id)

    threads = [threading.Thread(target=forget) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(outcomes) == 4
    assert set(outcomes) == erasures(registry, planted)
    assert len(erasures(registry, planted)) == 1


def test_only_those_with_the_right_may_forget(registry: Registry) -> None:
    planted, nobody = plant(registry), stranger(registry)
    before = rows_of(registry, planted.target)

    with pytest.raises(NotFound):
        forget_source(registry, nobody, planted.source)
    with registry.database.write_transaction() as session:
        grant = Grant(
            id=new_id(),
            user_id=nobody.user_id,
            source_id=planted.source,
            right="manage",
            granted_at=seconds_from_now(0),
        )
        session.add(grant)
    with pytest.raises(Forbidden):
        forget_source(registry, nobody, planted.source)
    with pytest.raises(Forbidden):
        forget_shard(registry, nobody, planted.source, planted.first_shard)
    with pytest.raises(Forbidden):
        forget_sample(registry, nobody, planted.source, planted.first_sample)

    assert rows_of(registry, planted.target) == before | {"grants": 2}
    with registry.database.write_transaction() as session:
        session.add(
            Grant(
                id=new_id(),
                user_id=nobody.user_id,
                source_id=planted.source,
                right="forget",
                granted_at=seconds_from_now(0),
            )
        )
    assert forget_source(registry, nobody, planted.source).requested_by == nobody.user_id


@pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)
def test_an_erasure_is_seen_by_who_asked_for_it_and_by_admins(registry: Registry) -> None:
    planted, other, nobody = plant(registry), plant(registry), stranger(registry)
    first = forget_source(registry, planted.owner, planted.source)
    second = forget_source(registry, OPERATOR, other.source)

    with registry.database.read_transaction() as session:
        assert [seen.id for seen in list_erasures(session, planted.owner).items] == [first.id]
        assert [seen.id for seen in list_erasures(session, OPERATOR).items] == [first.id, second.id]
        assert list_erasures(session, nobody).items == ()
        page = list_erasures(session, OPERATOR, limit=1)
        assert [seen.id for seen in list_erasures(session, OPERATOR, after=page.next).items] == [second.id]
        shown = show_erasure(session, planted.owner, first.id)
        assert (shown.state, shown.receipt, shown.steps[0].name) == ("running", None, "unserve")
        for caller, erasure in ((nobody, first), (planted.owner, second)):
            with pytest.raises(NotFound):
                show_erasure(session, caller, erasure.id)
