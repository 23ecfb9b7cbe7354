"""The claim of an upload: it says what to clear up after a dead holder, and a holder who is late is refused."""

import pytest
from sqlalchemy import select, update

from registry.db.clock import seconds_from_now
from registry.db.models.write_claims import WriteClaim
from registry.errors import LeaseLost
from registry.storage import write_claims
from tests.registry.ingest.fixtures import AtPoint, Desk

embedded = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)  # what no home has a say in


def run_out(desk: Desk) -> None:
    """As if no heartbeat had come for long."""
    with desk.registry.database.write_transaction() as session:
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))


def take_for_dead(desk: Desk) -> None:
    """What another process does about a write claim that ran out."""
    run_out(desk)
    write_claims.clean_up_abandoned(desk.registry.database, desk.registry.objects, desk.registry.scratch)


def test_a_holding_that_ran_out_cannot_commit(desk: Desk, at_point: AtPoint) -> None:
    before = desk.rows()

    at_point("upload: objects written", lambda: run_out(desk))

    with pytest.raises(LeaseLost):
        desk.upload(desk.pictures(range(4)))

    assert desk.rows() == before
    desk.assert_tidy()


def test_a_holder_who_was_cleared_up_after_removes_what_it_wrote_later(desk: Desk, at_point: AtPoint) -> None:
    at_point("upload: claimed", lambda: take_for_dead(desk))

    with pytest.raises(LeaseLost):
        desk.upload(desk.pictures(range(4)))

    assert desk.rows()["sources"] == 0
    desk.assert_tidy()


@embedded
def test_a_holding_names_every_place_before_anything_lies_there(desk: Desk, at_point: AtPoint) -> None:
    seen: list[tuple[list[str], bool]] = []

    def look() -> None:
        with desk.registry.database.read_transaction() as session:
            claim = session.scalars(select(WriteClaim)).one()
        seen.append((claim.prefixes, claim.scratch_id == desk.registry.scratch.id))

    at_point("upload: claimed", look)

    admission = desk.upload(desk.pictures(range(30)), shards=3)

    ((prefixes, is_here),) = seen
    assert is_here
    found = [found.key for found in desk.registry.objects.list_objects("sources/")]
    assert len(found) == admission.samples
    assert all(key.startswith(tuple(prefixes)) for key in found)


def test_who_is_taken_for_dead_after_the_commit_loses_nothing(desk: Desk, at_point: AtPoint) -> None:
    at_point("upload: committed", lambda: take_for_dead(desk))

    assert desk.upload(desk.pictures(range(4)), shards=2).samples == 4

    assert desk.rows()["samples"] == 4
    desk.assert_tidy()
