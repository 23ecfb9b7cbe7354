"""A heartbeat keeps a write claim alive, and tells when it is lost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from registry.db.clock import seconds_from_now
from registry.db.database import Database
from registry.db.models.write_claims import WriteClaim
from registry.errors import DatabaseUnreachable, LeaseLost
from registry.ids import new_id
from registry.ingest.claim_heartbeat import Heartbeat
from registry.storage import write_claims

QUICKLY = 0.002
embedded = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)  # what no home has a say in
PATIENCE_SECONDS = 30


class Watched:
    """The same database, which tells when a heartbeat is through, and can be away for one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.beats = threading.Semaphore(0)
        self.is_away = False

    @contextmanager
    def write_transaction(self) -> Iterator[Session]:
        try:
            if self.is_away:
                self.is_away = False
                raise DatabaseUnreachable("the database does not answer")
            with self._database.write_transaction() as session:
                yield session
        finally:
            self.beats.release()

    def wait_for_beats(self, number: int) -> None:
        for _ in range(number):
            assert self.beats.acquire(timeout=PATIENCE_SECONDS)


@pytest.fixture
def claim(database: Database) -> UUID:
    """A write claim that runs out in a while."""
    claim = new_id()
    with database.write_transaction() as session:
        write_claims.add_claim(session, claim, "upload", new_id(), seconds=30)
    return claim


def lasts_longer_than(database: Database, claim: UUID, seconds: float) -> bool:
    with database.read_transaction() as session:
        alive = select(WriteClaim.id).where(WriteClaim.id == claim, WriteClaim.expires_at > seconds_from_now(seconds))
        return session.scalars(alive).one_or_none() is not None


def test_a_heartbeat_moves_the_expiry_ahead(database: Database, claim: UUID) -> None:
    assert not lasts_longer_than(database, claim, 31)
    watched = Watched(database)

    with Heartbeat(watched, claim, QUICKLY) as heartbeat:  # type: ignore[arg-type]
        watched.wait_for_beats(1)
        heartbeat.check()

    assert lasts_longer_than(database, claim, 31)


@embedded
def test_a_database_that_is_away_for_a_moment_costs_nothing(database: Database, claim: UUID) -> None:
    watched = Watched(database)
    watched.is_away = True

    with Heartbeat(watched, claim, QUICKLY) as heartbeat:  # type: ignore[arg-type]
        watched.wait_for_beats(2)
        heartbeat.check()

    assert lasts_longer_than(database, claim, 31)


def test_a_holding_that_ran_out_is_told_and_not_revived(database: Database, claim: UUID) -> None:
    with database.write_transaction() as session:
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))
    heartbeat = Heartbeat(database, claim, QUICKLY)

    with heartbeat:
        heartbeat._thread.join(PATIENCE_SECONDS)  # it ends by itself

    with pytest.raises(LeaseLost):
        heartbeat.check()
    assert not lasts_longer_than(database, claim, 0)


@embedded
def test_no_thread_outlives_its_block(database: Database, claim: UUID) -> None:
    before = threading.active_count()

    with pytest.raises(KeyboardInterrupt), Heartbeat(database, claim):
        raise KeyboardInterrupt

    assert threading.active_count() == before
