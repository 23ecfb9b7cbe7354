"""An erasure waits for every process with bytes of its target: writers, scratch folders, the memory of replicas."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import select, update

from registry.access.caller import OPERATOR, Caller
from registry.db.clock import seconds_from_now
from registry.db.models.erasures import Replica
from registry.db.models.write_claims import WriteClaim
from registry.erasure.replicas import current_epoch, erasures_since, register_replica, report_epoch, unregister_replica
from registry.erasure.request import forget_sample, forget_source
from registry.erasure.runner import finish_erasure
from registry.erasure.steps import confirm_scratch
from registry.errors import Conflict, Forbidden, LeaseLost, NotFound
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import prompts_prefix
from registry.storage.scratch import ScratchSpace
from tests.registry.database_fixtures import sqlite_only
from tests.registry.erasure.fixtures import SeededSource, list_keys, seed_source


def add_claim(
    registry: Registry, seeded: SeededSource, home: UUID | None = None, prefixes: tuple[str, ...] = ()
) -> UUID:
    claim = new_id()
    with registry.database.write_transaction() as session:
        shard = seeded.first_shard
        write_claims.add_claim(session, claim, "train", seeded.source, shard=shard, scratch_id=home, prefixes=prefixes)
    return claim


def kill(registry: Registry, claim: UUID) -> None:
    """Lets the heartbeat have stopped long ago."""
    with registry.database.write_transaction() as session:
        session.execute(update(WriteClaim).where(WriteClaim.id == claim).values(expires_at=seconds_from_now(-1)))


def test_an_erasure_waits_for_a_live_claim(registry: Registry) -> None:
    seeded = seed_source(registry)
    claim = add_claim(registry, seeded)
    erasure = forget_source(registry, seeded.owner, seeded.source)

    waiting = finish_erasure(registry, erasure.id)

    assert waiting.state == "running"
    assert [line for line in waiting.waits_for if "(train) has bytes of it" in line] == list(waiting.waits_for)
    assert list_keys(registry) == []  # everything else is gone by then
    with registry.database.write_transaction() as session:
        write_claims.release_claim(session, claim)
    assert finish_erasure(registry, erasure.id).state == "complete"


def test_objects_of_a_dead_claim_are_removed(registry: Registry) -> None:
    seeded = seed_source(registry)
    prefix = prompts_prefix(seeded.source, seeded.first_shard, 1)
    claim = add_claim(registry, seeded, registry.scratch.id, (prefix,))
    erasure = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)
    kill(registry, claim)

    assert finish_erasure(registry, erasure.id).state == "complete"

    assert list_keys(registry, prefix) == []
    with registry.database.read_transaction() as session:
        assert session.scalars(select(WriteClaim)).all() == []


@sqlite_only
def test_an_erasure_does_not_wait_for_later_claims(registry: Registry) -> None:
    seeded = seed_source(registry)
    erasure = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)
    add_claim(registry, seeded)  # trains the next generation

    assert finish_erasure(registry, erasure.id).state == "complete"


def test_an_erasure_waits_for_a_scratch_folder_on_another_host_until_a_worker_starts_there(
    registry: Registry, tmp_path: Path
) -> None:
    seeded = seed_source(registry)
    there = ScratchSpace(tmp_path / "another machine")
    claim = add_claim(registry, seeded, there.id)
    folder = there.folder / str(claim)
    folder.mkdir()
    (folder / "picture").write_bytes(b"fetched")
    (there.folder / f"{claim}.lock").touch()
    erasure = forget_source(registry, seeded.owner, seeded.source)
    kill(registry, claim)

    waiting = finish_erasure(registry, erasure.id)

    assert waiting.state == "running"
    assert f"`alacarte erasure confirm {erasure.id}`" in waiting.waits_for[0]
    assert finish_erasure(replace(registry, scratch=there), erasure.id).state == "complete"
    assert not folder.exists()


@sqlite_only
def test_an_erasure_waits_for_a_scratch_folder_that_is_in_use_here(registry: Registry) -> None:
    seeded = seed_source(registry)
    claim = add_claim(registry, seeded, registry.scratch.id)
    erasure = forget_source(registry, seeded.owner, seeded.source)
    kill(registry, claim)

    with registry.scratch.job_folder(claim):
        assert "still running although its heartbeat stopped" in finish_erasure(registry, erasure.id).waits_for[0]

    assert finish_erasure(registry, erasure.id).state == "complete"


def test_a_lost_disk_is_confirmed_by_hand_and_the_receipt_says_so(registry: Registry) -> None:
    seeded = seed_source(registry)
    claim = add_claim(registry, seeded, new_id())
    erasure = forget_source(registry, seeded.owner, seeded.source)
    with registry.database.write_transaction() as session, pytest.raises(Conflict, match="is alive or has finished"):
        confirm_scratch(session, OPERATOR, erasure.id)
    kill(registry, claim)
    with registry.database.write_transaction() as session, pytest.raises(Forbidden):
        confirm_scratch(session, seeded.owner, erasure.id)
    with registry.database.write_transaction() as session, pytest.raises(NotFound):
        confirm_scratch(session, OPERATOR, new_id())

    with registry.database.write_transaction() as session:
        assert confirm_scratch(session, Caller(seeded.owner.user_id, "admin"), erasure.id) == 1

    receipt = finish_erasure(registry, erasure.id).receipt
    assert receipt is not None
    found = {step["name"]: step["found"] for step in receipt["steps"]}
    assert found["write_claims"] == {"confirmed_by_hand": 1}
    with registry.database.write_transaction() as session, pytest.raises(Conflict, match="complete"):
        confirm_scratch(session, OPERATOR, erasure.id)


def test_an_erasure_waits_until_every_replica_has_evicted(registry: Registry) -> None:
    seeded = seed_source(registry)
    with registry.database.write_transaction() as session:
        first, second = (register_replica(session, name, 60).id for name in ("one", "two"))
    erasure = forget_source(registry, seeded.owner, seeded.source)
    with registry.database.write_transaction() as session:
        report_epoch(session, first, erasure.epoch, 60)

    waiting = finish_erasure(registry, erasure.id)

    assert [line for line in waiting.waits_for if "memory of two:" in line] == list(waiting.waits_for) != []
    with registry.database.write_transaction() as session:
        report_epoch(session, second, erasure.epoch, 60)
    assert finish_erasure(registry, erasure.id).state == "complete"


def test_an_erasure_waits_for_no_dead_or_unregistered_replica(registry: Registry) -> None:
    seeded = seed_source(registry)
    with registry.database.write_transaction() as session:
        dead, gone = (register_replica(session, name, 60).id for name in ("dead", "gone"))
    erasure = forget_source(registry, seeded.owner, seeded.source)

    with registry.database.write_transaction() as session:
        session.execute(update(Replica).where(Replica.id == dead).values(expires_at=seconds_from_now(-1)))
        unregister_replica(session, gone)

    assert finish_erasure(registry, erasure.id).state == "complete"
    with registry.database.write_transaction() as session, pytest.raises(LeaseLost):
        report_epoch(session, dead, erasure.epoch, 60)  # it must let go of everything first


@sqlite_only
def test_a_replica_learns_in_order_what_to_evict(registry: Registry) -> None:
    seeded, other = seed_source(registry), seed_source(registry)
    with registry.database.write_transaction() as session:
        replica = register_replica(session, "one", 60)
        start = replica.epoch
        assert start == current_epoch(session)
    of_sample = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)
    of_source = forget_source(registry, other.owner, other.source)

    with registry.database.read_transaction() as session:
        evictions = erasures_since(session, start)
        later = erasures_since(session, of_sample.epoch)

    assert [(each.epoch, each.source_id, each.shard_id) for each in evictions] == [
        (of_sample.epoch, seeded.source, seeded.first_shard),
        (of_source.epoch, other.source, None),
    ]
    assert later == evictions[1:]
    with registry.database.write_transaction() as session:
        for epoch in (of_source.epoch, of_sample.epoch):
            report_epoch(session, replica.id, epoch, 60)
    with registry.database.read_transaction() as session:
        assert session.get_one(Replica, replica.id).epoch == of_source.epoch  # it never goes back
