"""The scan finds every fault, and none in a healthy registry."""

from uuid import UUID

import pytest
from sqlalchemy import delete, update

from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.log import LogEntry
from registry.db.models.prompts import Prompt
from registry.db.models.write_claims import WriteClaim
from registry.erasure.request import forget_sample, forget_shard, forget_source
from registry.fsck import missing_objects, orphan_objects
from registry.fsck.scan import scan
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import probe_timestamp, prompts_prefix, sample_key, shard_prefix
from tests.registry.database_fixtures import sqlite_only
from tests.registry.erasure.fixtures import die_during_store_check, first_prompt_key, first_sample_key, seed_source
from tests.registry.factories import make_shard

DIGEST = "ab" * 32


def found(registry: Registry, *, deep: bool = True) -> list[tuple[str, str]]:
    return [(finding.kind, finding.subject) for finding in scan(registry, deep=deep)]


def overwrite(registry: Registry, key: str, body: bytes) -> None:
    registry.objects.remove(key)
    registry.objects.put(key, body)


def test_a_healthy_registry_has_no_findings(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_objects, "BATCH", 2)
    monkeypatch.setattr(missing_objects, "PAGE", 1)
    seed_source(registry, shards=3)
    seed_source(registry)
    counts: list[int] = []

    assert list(scan(registry, progress=counts.append)) == []
    assert counts == list(range(1, 2 * 15 + 1))  # each object listed once, and read once


def test_an_object_without_a_row_is_an_orphan(registry: Registry) -> None:
    seeded = seed_source(registry)
    keys = [
        sample_key(seeded.source, seeded.first_shard, DIGEST),
        sample_key(seeded.source, new_id(), seeded.first_sample),  # the right picture in a wrong shard
        f"{prompts_prefix(seeded.source, seeded.first_shard, 1)}{new_id()}.safetensors",
        sample_key(new_id(), new_id(), DIGEST),
    ]
    for key in keys:
        registry.objects.put(key, b"left behind")

    assert sorted(found(registry)) == sorted(("orphan object", key) for key in keys)


def test_an_object_under_a_write_claim_is_no_orphan(registry: Registry) -> None:
    seeded, shard = seed_source(registry), new_id()
    with registry.database.write_transaction() as session:
        prefix = shard_prefix(seeded.source, shard)
        write_claims.add_claim(session, new_id(), "upload", seeded.source, prefixes=[prefix])
    registry.objects.put(sample_key(seeded.source, shard, DIGEST), b"on its way")

    assert found(registry) == []


def test_objects_that_are_being_forgotten_are_neither_orphans_nor_lost(registry: Registry) -> None:
    first, second, third = (seed_source(registry) for _ in range(3))
    forget_source(registry, first.owner, first.source)
    forget_shard(registry, second.owner, second.source, second.first_shard)
    forget_sample(registry, third.owner, third.source, third.first_sample)
    registry.objects.remove(first_sample_key(first))

    assert found(registry) == []


def test_an_object_that_the_registry_did_not_write_is_unknown_and_not_repairable(registry: Registry) -> None:
    registry.objects.put("notes/from-the-operator.txt", b"do not touch")

    (finding,) = scan(registry)

    assert (finding.kind, finding.subject) == ("unknown object", "notes/from-the-operator.txt")
    assert not finding.is_repairable


def test_an_old_leftover_of_a_store_check_is_an_orphan(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    die_during_store_check(registry, monkeypatch)
    assert found(registry) == []  # somebody may be at it

    monkeypatch.setattr(orphan_objects, "PROBE_SECONDS", -1.0)

    [(kind, key)] = found(registry)
    assert kind == "orphan object"
    assert probe_timestamp(key) is not None


@sqlite_only
def test_a_key_that_resembles_a_store_check_is_unknown(registry: Registry) -> None:
    keys = ["check-1", f"check-{UUID(int=7)}", f"notes/check-{new_id()}"]
    for key in keys:
        registry.objects.put(key, b"do not touch")

    assert sorted(found(registry)) == [("unknown object", key) for key in sorted(keys)]


@pytest.mark.parametrize("deep", [True, False])
def test_rows_whose_objects_are_gone_or_cut_are_found(registry: Registry, deep: bool) -> None:
    seeded = seed_source(registry)
    prompt = first_prompt_key(registry, seeded)
    registry.objects.remove(first_sample_key(seeded))
    overwrite(registry, prompt, b"short")

    assert sorted(found(registry, deep=deep)) == [("damaged prompt", prompt), ("lost sample", first_sample_key(seeded))]


def test_bytes_that_changed_are_found_by_reading_them(registry: Registry) -> None:
    seeded = seed_source(registry)
    overwrite(registry, first_sample_key(seeded), f"PICTURE 0 of {seeded.first_shard}".encode())

    assert found(registry, deep=False) == []
    assert found(registry) == [("damaged sample", first_sample_key(seeded))]


def test_a_prompt_of_another_generation_is_stale(registry: Registry) -> None:
    seeded = seed_source(registry)
    with registry.database.write_transaction() as session:
        session.execute(update(Shard).where(Shard.id == seeded.first_shard).values(generation=2))

    assert found(registry) == [("stale prompt", first_prompt_key(registry, seeded))]


@sqlite_only
def test_a_shard_with_nothing_in_it_is_empty_and_a_remote_one_with_a_prompt_is_not(registry: Registry) -> None:
    seeded = seed_source(registry)
    remote, emptied = seeded.shards
    with registry.database.write_transaction() as session:
        session.execute(delete(Sample).where(Sample.source_id == seeded.source))
        session.execute(update(Shard).where(Shard.id == remote).values(is_remote=True))
        session.execute(delete(Prompt).where(Prompt.shard_id == emptied))
        bare = make_shard(session, session.get_one(Source, seeded.source)).id

    kinds = [subject for kind, subject in found(registry) if kind == "empty shard"]

    assert sorted(kinds) == sorted([str(emptied), str(bare)])


def test_an_expired_claim_is_found_and_repairable_only_on_its_own_host(registry: Registry) -> None:
    seeded = seed_source(registry)
    here, elsewhere, alive = sorted(new_id() for _ in range(3))
    with registry.database.write_transaction() as session:
        write_claims.add_claim(session, here, "upload", seeded.source, scratch_id=registry.scratch.id)
        write_claims.add_claim(session, elsewhere, "upload", seeded.source, scratch_id=new_id())
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))
        write_claims.add_claim(session, alive, "upload", seeded.source)

    findings = list(scan(registry))

    assert [(finding.kind, finding.subject, finding.is_repairable) for finding in findings] == [
        ("expired write claim", str(here), True),
        ("expired write claim", str(elsewhere), False),
    ]


@sqlite_only
def test_an_unlocked_scratch_folder_is_abandoned(registry: Registry) -> None:
    dead, alive = new_id(), new_id()
    assert registry.scratch.id
    (registry.scratch.folder / str(dead)).mkdir()
    (registry.scratch.folder / f"{dead}.lock").touch()

    with registry.scratch.job_folder(alive):
        assert found(registry) == [("abandoned scratch folder", str(dead))]
        assert (registry.scratch.folder / str(dead)).is_dir()


@sqlite_only
def test_a_changed_log_entry_is_found(registry: Registry) -> None:
    seeded = seed_source(registry)
    erasure = forget_source(registry, seeded.owner, seeded.source)
    with registry.database.write_transaction() as session:
        session.execute(update(LogEntry).where(LogEntry.number == erasure.epoch).values(action="nothing"))

    assert found(registry) == [("log gap", str(erasure.epoch))]
