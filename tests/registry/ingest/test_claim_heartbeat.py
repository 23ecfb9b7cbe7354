"""A heartbeat keeps a holding alive, and tells when it is lost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from registry.db.clock import after
from registry.db.database import Database
from registry.db.models.write_claims import Holding
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
    def writing(self) -> Iterator[Session]:
        try:
            if self.is_away:
                self.is_away = False
                raise DatabaseUnreachable("the database does not answer")
            with self._database.writing() as session:
                yield session
        finally:
            self.beats.release()

    def wait_for_beats(self, number: int) -> None:
        for _ in range(number):
            assert self.beats.acquire(timeout=PATIENCE_SECONDS)


@pytest.fixture
def holding(database: Database) -> UUID:
    """A holding that runs out in a while."""
    holding = new_id()
    with database.writing() as session:
        write_claims.take(session, holding, "upload", new_id(), seconds=30)
    return holding


def lasts_longer_than(database: Database, holding: UUID, seconds: float) -> bool:
    with database.reading() as session:
        alive = select(Holding.id).where(Holding.id == holding, Holding.expires_at > after(seconds))
        return session.scalars(alive).one_or_none() is not None


def test_a_heartbeat_moves_the_expiry_ahead(database: Database, holding: UUID) -> None:
    assert not lasts_longer_than(database, holding, 31)
    watched = Watched(database)

    with Heartbeat(watched, holding, QUICKLY) as heartbeat:  # type: ignore[arg-type]
        watched.wait_for_beats(1)
        heartbeat.check()

    assert lasts_longer_than(database, holding, 31)


@embedded
def test_a_database_that_is_away_for_a_moment_costs_nothing(database: Database, holding: UUID) -> None:
    watched = Watched(database)
    watched.is_away = True

    with Heartbeat(watched, holding, QUICKLY) as heartbeat:  # type: ignore[arg-type]
        watched.wait_for_beats(2)
        heartbeat.check()

    assert lasts_longer_than(database, holding, 31)


def test_a_holding_that_ran_out_is_told_and_not_revived(database: Database, holding: UUID) -> None:
    with database.writing() as session:
        session.execute(update(Holding).values(expires_at=after(-1)))
    heartbeat = Heartbeat(database, holding, QUICKLY)

    with heartbeat:
        heartbeat._thread.join(PATIENCE_SECONDS)  # it ends by itself

    with pytest.raises(LeaseLost):
        heartbeat.check()
    assert not lasts_longer_than(database, holding, 0)


@embedded
def test_no_thread_outlives_its_block(database: Database, holding: UUID) -> None:
    before = threading.active_count()

    with pytest.raises(KeyboardInterrupt), Heartbeat(database, holding):
        raise KeyboardInterrupt

    assert threading.active_count() == before
