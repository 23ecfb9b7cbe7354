"""After a repair the scan finds nothing more, and nothing intact was removed."""

import pytest
from sqlalchemy import delete, select, update
from sqlalchemy.sql.dml import UpdateBase

from registry.access.caller import OPERATOR
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.log import LogEntry, LogHead
from registry.db.models.prompts import Prompt, ReleaseLoss, ReleasePrompt
from registry.db.models.write_claims import WriteClaim
from registry.erasure.request import forget_source
from registry.errors import Forbidden
from registry.fsck import orphan_objects
from registry.fsck.finding import Finding
from registry.fsck.repair import NOTHING_TO_REPAIR, repair
from registry.fsck.scan import scan
from registry.ids import new_id
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import probe_key, sample_key, shard_prefix
from registry.storage.ownership import StoreOwnershipError
from tests.registry.database_fixtures import sqlite_only
from tests.registry.erasure.fixtures import (
    count_target_rows,
    die_during_store_check,
    first_prompt_key,
    first_sample_key,
    list_keys,
    read_shard,
    seed_source,
)
from tests.registry.factories import make_shard

DIGEST = "ab" * 32


def scan_and_repair(registry: Registry) -> list[str]:
    """What was done; afterwards nothing is left to do."""
    actions = [repaired.action for repaired in repair(registry, OPERATOR, list(scan(registry)))]
    assert [finding for finding in scan(registry) if finding.is_fault] == []
    return actions


@sqlite_only
def test_nothing_is_done_where_nothing_is_wrong(registry: Registry) -> None:
    seeded = seed_source(registry)
    before = count_target_rows(registry, seeded.target), list_keys(registry)

    assert scan_and_repair(registry) == []
    assert (count_target_rows(registry, seeded.target), list_keys(registry)) == before


@sqlite_only
def test_only_admins_may_repair(registry: Registry) -> None:
    seeded = seed_source(registry)

    with pytest.raises(Forbidden):
        repair(registry, seeded.owner, [])


def test_orphans_are_removed_and_all_else_stays(registry: Registry) -> None:
    seeded = seed_source(registry)
    before = list_keys(registry)
    registry.objects.put(sample_key(seeded.source, seeded.first_shard, DIGEST), b"left behind")

    assert scan_and_repair(registry) == ["removed (11 bytes)"]
    assert list_keys(registry) == before


def test_an_old_leftover_of_a_store_check_is_removed(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_source(registry)
    before = list_keys(registry, "")
    die_during_store_check(registry, monkeypatch)
    assert list_keys(registry, "") != before
    monkeypatch.setattr(orphan_objects, "PROBE_SECONDS", -1.0)

    assert scan_and_repair(registry) == ["removed (0 bytes)"]
    assert list_keys(registry, "") == before


@sqlite_only
def test_an_object_of_a_running_store_check_is_kept(registry: Registry) -> None:
    key = probe_key()
    registry.objects.put(key, b"")

    [repaired] = repair(registry, OPERATOR, [Finding("orphan object", key, "", True)])

    assert repaired.action == NOTHING_TO_REPAIR
    assert key in list_keys(registry, "")


def test_an_object_that_is_no_orphan_any_more_is_kept(registry: Registry) -> None:
    seeded, shard = seed_source(registry), new_id()
    claimed, named = sample_key(seeded.source, shard, DIGEST), first_sample_key(seeded)
    registry.objects.put(claimed, b"on its way")
    with registry.database.write_transaction() as session:
        prefix = shard_prefix(seeded.source, shard)
        write_claims.add_claim(session, new_id(), "upload", seeded.source, prefixes=[prefix])
    stale = [Finding("orphan object", key, "", True) for key in (claimed, named, f"{named[:-64]}{DIGEST}")]

    assert [repaired.action for repaired in repair(registry, OPERATOR, stale)] == [NOTHING_TO_REPAIR] * 3
    assert {claimed, named} <= set(list_keys(registry))


@pytest.mark.parametrize("fault", ["lost", "damaged", "stale"])
def test_a_prompt_that_cannot_be_served_is_dropped_and_trained_again(registry: Registry, fault: str) -> None:
    seeded = seed_source(registry)
    key = first_prompt_key(registry, seeded)
    if fault != "stale":
        registry.objects.remove(key)
    if fault == "damaged":
        registry.objects.put(key, b"other bytes")
    with registry.database.write_transaction() as session:
        session.execute(update(Shard).values(attempts=4, error="no bytes", not_before=seconds_from_now(900)))
        if fault == "stale":
            session.execute(update(Shard).where(Shard.id == seeded.first_shard).values(generation=2))

    assert scan_and_repair(registry) == ["dropped, also from 1 releases; its shard is trained again"]

    with registry.database.read_transaction() as session:
        assert session.scalars(select(Prompt).where(Prompt.shard_id == seeded.first_shard)).all() == []
        assert len(session.scalars(select(ReleasePrompt)).all()) == 1
        assert session.scalars(select(ReleaseLoss)).all() == []  # nothing was forgotten
        shard = session.get_one(Shard, seeded.first_shard)
        assert (shard.attempts, shard.error, shard.not_before) == (0, None, None)
        line = session.scalars(select(LogEntry).where(LogEntry.action == "doctor.prompt_dropped")).one()
    assert line.subject["releases"] == 1
    assert key not in list_keys(registry)


@sqlite_only
def test_a_remote_shard_goes_with_its_lost_prompt(registry: Registry) -> None:
    seeded = seed_source(registry)
    with registry.database.write_transaction() as session:
        session.execute(delete(Sample).where(Sample.shard_id == seeded.first_shard))
        session.execute(update(Shard).where(Shard.id == seeded.first_shard).values(is_remote=True))
    registry.objects.remove(shard_prefix(seeded.source, seeded.first_shard))

    assert scan_and_repair(registry) == [
        "dropped, also from 1 releases; its shard was removed: publish the prompt again if you have it"
    ]
    assert read_shard(registry, seeded.first_shard) is None


@pytest.mark.parametrize("fault", ["LOST", "DAMAGED"])
def test_a_lost_picture_is_dropped_loudly_and_its_shard_is_trained_again(registry: Registry, fault: str) -> None:
    seeded = seed_source(registry)
    registry.objects.remove(first_sample_key(seeded))
    if fault == "DAMAGED":
        registry.objects.put(first_sample_key(seeded), b"other bytes")

    (action,) = [action for action in scan_and_repair(registry) if fault in action]
    assert action == (
        f"THE PICTURE IS {fault}: its row was dropped, and its shard is trained again. Upload it again if you have it"
    )

    with registry.database.read_transaction() as session:
        left = session.scalars(select(Sample.digest).where(Sample.shard_id == seeded.first_shard)).all()
        # A prompt that knows the picture could not be found by it any more, and so never be forgotten with it.
        assert session.scalars(select(Prompt).where(Prompt.shard_id == seeded.first_shard)).all() == []
        assert session.get_one(Shard, seeded.first_shard).generation == 2
    assert left == seeded.shards[seeded.first_shard][1:]
    assert first_sample_key(seeded) not in list_keys(registry)


@pytest.mark.parametrize("is_trained", [True, False])
@sqlite_only
def test_a_shard_goes_with_its_last_picture(registry: Registry, is_trained: bool) -> None:
    seeded = seed_source(registry, samples=1)
    registry.objects.remove(first_sample_key(seeded))
    if not is_trained:
        registry.objects.remove(first_prompt_key(registry, seeded))
        with registry.database.write_transaction() as session:
            session.execute(delete(Prompt).where(Prompt.shard_id == seeded.first_shard))

    scan_and_repair(registry)

    assert read_shard(registry, seeded.first_shard) is None


def test_a_store_that_is_not_mounted_costs_no_row(registry: Registry) -> None:
    seeded = seed_source(registry)
    findings = [
        Finding("lost sample", first_sample_key(seeded), "", True),
        Finding("lost prompt", first_prompt_key(registry, seeded), "", True),
    ]
    registry.objects.remove("")
    before = count_target_rows(registry, seeded.target)

    for finding in findings:
        with pytest.raises(StoreOwnershipError, match="disk is mounted"):
            repair(registry, OPERATOR, [finding])

    assert count_target_rows(registry, seeded.target) == before


def test_intact_or_forgotten_rows_are_not_dropped(registry: Registry) -> None:
    seeded, gone = seed_source(registry), seed_source(registry)
    stale = [
        Finding("lost sample", first_sample_key(seeded), "", True),
        Finding("damaged prompt", first_prompt_key(registry, seeded), "", True),
        Finding("empty shard", str(seeded.first_shard), "", True),
        Finding("lost sample", first_sample_key(gone), "", True),
        Finding("lost prompt", first_prompt_key(registry, gone), "", True),
        Finding("empty shard", str(gone.first_shard), "", True),
    ]
    before = count_target_rows(registry, seeded.target)
    forget_source(registry, gone.owner, gone.source)

    assert [repaired.action for repaired in repair(registry, OPERATOR, stale)] == [NOTHING_TO_REPAIR] * 6
    assert count_target_rows(registry, seeded.target) == before


def test_leftovers_of_dead_processes_are_removed(registry: Registry) -> None:
    seeded, dead = seed_source(registry), new_id()
    shard = new_id()
    key = sample_key(seeded.source, shard, DIGEST)
    registry.objects.put(key, b"half an upload")
    with registry.database.write_transaction() as session:
        prefix = shard_prefix(seeded.source, shard)
        write_claims.add_claim(
            session, dead, "upload", seeded.source, scratch_id=registry.scratch.id, prefixes=[prefix]
        )
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))
        bare = make_shard(session, session.get_one(Source, seeded.source)).id
    (registry.scratch.folder / str(dead)).mkdir()
    (registry.scratch.folder / f"{dead}.lock").touch()

    assert scan_and_repair(registry) == ["cleaned up", "removed", "removed"]

    assert key not in list_keys(registry)
    assert read_shard(registry, bare) is None
    assert not (registry.scratch.folder / str(dead)).exists()


TAMPER: dict[str, UpdateBase] = {
    "a changed entry": update(LogEntry).where(LogEntry.number == 2).values(action="nothing"),
    "a removed entry": delete(LogEntry).where(LogEntry.number == 2),
    "a cut-off end": delete(LogEntry).where(LogEntry.number >= 4),
    "a lost head": delete(LogHead),
    "a head set back": update(LogHead).values(number=2),
    "a changed head": update(LogHead).values(hash="f" * 64),
}


@sqlite_only
@pytest.mark.parametrize("tamper", TAMPER)
def test_a_log_gap_is_acknowledged_once_and_the_log_works_again(registry: Registry, tamper: str) -> None:
    with registry.database.write_transaction() as session:
        for _ in range(5):
            chain.append_entry(session, None, "test")
        session.execute(TAMPER[tamper])
    broken = [finding for finding in scan(registry) if finding.is_fault]
    assert len(broken) == 1

    assert len(list(repair(registry, OPERATOR, broken))) == 1

    with registry.database.write_transaction() as session:
        chain.append_entry(session, None, "test")
    assert [finding for finding in scan(registry) if finding.is_fault] == []
    is_healed = tamper in ("a lost head", "a head set back")  # the lines themselves were whole
    assert [finding.kind for finding in scan(registry)] == ([] if is_healed else ["acknowledged log gap"])
    with registry.database.read_transaction() as session:
        entries = session.scalars(select(LogEntry).where(LogEntry.action == "log.examined")).one()
    assert entries.subject["breaks"] == [[int(broken[0].subject), broken[0].detail]]


@sqlite_only
def test_an_entry_that_is_changed_again_is_a_new_gap(registry: Registry) -> None:
    with registry.database.write_transaction() as session:
        for _ in range(3):
            chain.append_entry(session, None, "test")
        session.execute(TAMPER["a changed entry"])
    scan_and_repair(registry)

    with registry.database.write_transaction() as session:
        session.execute(update(LogEntry).where(LogEntry.number == 2).values(action="something else"))

    assert [finding.kind for finding in scan(registry)] == ["log gap"]
