"""Tombstones recognise a forgotten picture within its source, and nowhere else."""

from hypothesis import given
from hypothesis import strategies as st

from registry.db.clock import now
from registry.db.database import Database
from registry.db.models.catalog import Tombstone
from registry.ids import new_id
from registry.ingest.tombstones import find_tombstones, remove_tombstones, tombstone_hash
from tests.registry.factories import make_source, make_task

DIGESTS = [f"{number:064x}" for number in range(5)]
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(key=st.binary(min_size=32, max_size=32), first=digests, second=digests)
def test_different_pictures_have_different_tombstones(key: bytes, first: str, second: str) -> None:
    assert (tombstone_hash(key, first) == tombstone_hash(key, second)) == (first == second)


@given(keys=st.lists(st.binary(min_size=32, max_size=32), min_size=2, max_size=2, unique=True), digest=digests)
def test_the_same_picture_has_another_tombstone_in_another_source(keys: list[bytes], digest: str) -> None:
    assert tombstone_hash(keys[0], digest) != tombstone_hash(keys[1], digest)
    assert digest not in tombstone_hash(keys[0], digest)


def test_only_the_tombstones_of_this_source_are_found_and_removed(database: Database) -> None:
    erasure = new_id()
    with database.write_transaction() as session:
        task = make_task(session)
        source, other = make_source(session, task), make_source(session, task)
        for where, digest in ((source, DIGESTS[1]), (source, DIGESTS[3]), (other, DIGESTS[0])):
            mark = tombstone_hash(where.key, digest)
            session.add(Tombstone(source_id=where.id, hash=mark, erasure_id=erasure, created_at=now()))

    with database.read_transaction() as session:
        found = find_tombstones(session, source, DIGESTS)

    assert set(found) == {DIGESTS[1], DIGESTS[3]}
    assert {tombstone.erasure_id for tombstone in found.values()} == {erasure}
    with database.write_transaction() as session:
        remove_tombstones(session, source, [DIGESTS[1], DIGESTS[4]])
    with database.read_transaction() as session:
        assert set(find_tombstones(session, source, DIGESTS)) == {DIGESTS[3]}
        assert set(find_tombstones(session, other, DIGESTS)) == {DIGESTS[0]}
