"""A heartbeat renews a write claim, survives short outages, and reports a lost claim."""

import threading
import time
from uuid import UUID

import pytest
from sqlalchemy import select, update

from registry.db.clock import seconds_from_now
from registry.db.database import Database
from registry.db.heartbeat import Heartbeat
from registry.db.models.write_claims import WriteClaim
from registry.errors import DatabaseUnreachable, LeaseLost
from registry.ids import new_id
from registry.storage import write_claims
from tests.registry.database_fixtures import sqlite_only

WAIT_SECONDS = 30


class Renewal:
    """Renews a claim, counts the calls, and can fail once as if the database were unreachable."""

    def __init__(self, database: Database, claim: UUID) -> None:
        self._database = database
        self._claim = claim
        self._calls = threading.Semaphore(0)
        self.is_unreachable = False

    def __call__(self) -> None:
        try:
            if self.is_unreachable:
                self.is_unreachable = False
                raise DatabaseUnreachable("the database does not answer")
            with self._database.write_transaction() as session:
                write_claims.renew_claim(session, self._claim)
        finally:
            self._calls.release()

    def wait_for_calls(self, number: int) -> None:
        for _ in range(number):
            assert self._calls.acquire(timeout=WAIT_SECONDS)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self, every_seconds=0.002, lifetime_seconds=60)


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
    renewal = Renewal(database, claim)

    with renewal.heartbeat() as heartbeat:
        renewal.wait_for_calls(1)
        heartbeat.check()

    assert lasts_longer_than(database, claim, 31)


@sqlite_only
def test_a_short_outage_of_the_database_does_not_lose_the_claim(database: Database, claim: UUID) -> None:
    renewal = Renewal(database, claim)
    renewal.is_unreachable = True

    with renewal.heartbeat() as heartbeat:
        renewal.wait_for_calls(2)
        heartbeat.check()

    assert lasts_longer_than(database, claim, 31)


def test_an_expired_claim_is_reported_and_not_revived(database: Database, claim: UUID) -> None:
    with database.write_transaction() as session:
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))
    heartbeat = Renewal(database, claim).heartbeat()

    with heartbeat:
        heartbeat._thread.join(WAIT_SECONDS)  # it ends by itself

    with pytest.raises(LeaseLost):
        heartbeat.check()
    assert not lasts_longer_than(database, claim, 0)


def test_a_lease_that_could_not_be_renewed_in_time_is_lost() -> None:
    heartbeat = Heartbeat(lambda: None, every_seconds=1, lifetime_seconds=60, renewed_at=time.monotonic() - 61)

    assert heartbeat.is_late
    with pytest.raises(LeaseLost, match="within 60 seconds"):
        heartbeat.check()


@sqlite_only
def test_no_thread_outlives_its_block(database: Database, claim: UUID) -> None:
    before = threading.active_count()

    with pytest.raises(KeyboardInterrupt), Renewal(database, claim).heartbeat():
        raise KeyboardInterrupt

    assert threading.active_count() == before
