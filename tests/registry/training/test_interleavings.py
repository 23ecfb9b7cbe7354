"""Leasing, publishing, forgetting and cleaning up at the same moment, step by step, with row locks (PostgreSQL)."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import make_url, select, text

from registry.access.caller import OPERATOR
from registry.db.clock import now
from registry.db.database import Database
from registry.db.locks import lock_source
from registry.db.models.erasures import Erasure
from registry.db.models.write_claims import WriteClaim
from registry.erasure import request
from registry.erasure.request import forget_source
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.folder import FolderStore
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from registry.training.lease import Lease, renew_lease
from registry.training.publish import publish
from registry.training.queue import lease_next_shard
from tests.registry.training.fixtures import METADATA, add_shard, lease_new_shard, lease_one
from tests.servers.processes import wait_until


@pytest.fixture
def registry(migrated_postgres_url: str, folder_store: FolderStore, tmp_path: Path) -> Iterator[Registry]:
    """Only PostgreSQL lets two write at once; where the objects are does not matter here."""
    # A test that waits for itself shall fail, not hang.
    url = make_url(migrated_postgres_url).update_query_dict({"options": "-c lock_timeout=20s"})
    database = Database(url.render_as_string(hide_password=False))
    mark_store(database, folder_store)
    yield Registry(database, folder_store, ScratchSpace(tmp_path / "scratch"), open_signer(tmp_path / "key.pem"))
    database.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def wait_until_blocked(database: Database) -> None:
    """Returns once somebody waits for a lock in this database."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    def is_blocked() -> bool:
        with database.read_transaction() as session:
            return bool(session.execute(waiting).scalar_one())

    wait_until(is_blocked, "somebody who waits for a lock")


def is_late(database: Database, lease: Lease) -> bool:
    with database.read_transaction() as session:
        return session.scalars(select(WriteClaim.expires_at <= now()).where(WriteClaim.id == lease.id)).one()


def test_shards_of_a_locked_source_are_skipped(registry: Registry) -> None:
    urgent = add_shard(registry.database, priority=5)
    other = add_shard(registry.database)

    with registry.database.write_transaction() as session:
        lock_source(session, urgent.source_id)
        lease = lease_one(registry)

    assert lease.shard_id == other.id


def test_a_lease_waits_for_a_locked_source_if_nothing_else_is_due(registry: Registry, pool: ThreadPoolExecutor) -> None:
    shard = add_shard(registry.database)

    with registry.database.write_transaction() as session:
        lock_source(session, shard.source_id)
        submitted = pool.submit(lease_next_shard, registry, "ann")
        wait_until_blocked(registry.database)

    lease = submitted.result()
    assert lease is not None
    assert lease.shard_id == shard.id


def test_no_lease_slips_into_a_source_that_is_just_being_forgotten(
    registry: Registry, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = add_shard(registry.database)
    record: Callable[..., Erasure] = request._new_erasure
    submitted: list[Future[Lease | None]] = []

    def lease_meanwhile(*args: object, **kwargs: object) -> Erasure:
        # The source is locked, and nothing else has been touched yet.
        submitted.append(pool.submit(lease_next_shard, registry, "ann"))
        wait_until_blocked(registry.database)
        return record(*args, **kwargs)

    monkeypatch.setattr("registry.erasure.request._new_erasure", lease_meanwhile)
    erasure = forget_source(registry, OPERATOR, shard.source_id)

    assert submitted[0].result() is None
    assert erasure.write_claims == []
    with registry.database.read_transaction() as session:
        assert session.scalars(select(WriteClaim)).all() == []


def test_locking_a_source_waits_for_leases_that_are_being_written_and_sees_their_claims(
    registry: Registry, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = add_shard(registry.database)
    write: Callable[..., None] = write_claims.add_claim
    submitted: list[Future[list[str]]] = []

    def lock_and_list_claims() -> list[str]:
        with registry.database.write_transaction() as session:
            lock_source(session, shard.source_id)
            return [str(claim) for claim in session.scalars(select(WriteClaim.id))]

    def lock_meanwhile(*args: object, **kwargs: object) -> None:
        submitted.append(pool.submit(lock_and_list_claims))
        wait_until_blocked(registry.database)
        write(*args, **kwargs)

    monkeypatch.setattr("registry.training.queue.write_claims.add_claim", lock_meanwhile)
    lease = lease_one(registry)

    assert submitted[0].result() == [str(lease.id)]


def test_a_heartbeat_during_publishing_waits_and_neither_is_refused_wrongly(
    registry: Registry, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lease_new_shard(registry)
    commit: Callable[..., None] = write_claims.commit_objects
    beats = []

    def renew_meanwhile(*args: object) -> None:
        beats.append(pool.submit(renew_lease, registry.database, lease, 0.9))
        wait_until_blocked(registry.database)
        commit(*args)

    monkeypatch.setattr("registry.training.publish.write_claims.commit_objects", renew_meanwhile)

    prompt = publish(registry, lease, b"numbers", METADATA)

    assert registry.objects.read(prompt.key, prompt.digest) == b"numbers"
    assert "is lost" in str(beats[0].exception())  # there is nothing left to keep


def test_clean_up_keeps_the_object_of_a_commit_that_is_under_way_when_its_claim_expires(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lease_new_shard(registry)
    commit: Callable[..., None] = write_claims.commit_objects

    def commit_late(*args: object) -> None:
        commit(*args)
        wait_until(lambda: is_late(registry.database, lease), "the end of the lease")
        write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)

    monkeypatch.setattr("registry.training.publish.write_claims.commit_objects", commit_late)
    # The lease is short from here on.
    monkeypatch.setattr(
        "registry.training.publish.renew_lease",
        lambda *_, **__: renew_lease(registry.database, lease, 1.0, seconds=0.5),
    )

    with registry.scratch.job_folder(lease.id):
        prompt = publish(registry, lease, b"numbers", METADATA)

    assert registry.objects.read(prompt.key, prompt.digest) == b"numbers"
