"""Concurrent use of a store: one writer of a key wins, and removals do not affect other keys."""

from functools import partial
from itertools import chain

from registry.storage.folder import FolderStore
from registry.storage.s3 import PART_BYTES, S3Store
from registry.storage.store import ObjectDamaged, ObjectExists, ObjectStore
from tests.registry.factories import run_at_once
from tests.registry.storage.store_fixtures import StoreFixture, digest, sorted_items

WRITERS = 3


def put_at_once(store: ObjectStore, key: str, bodies: list[bytes]) -> list[bytes]:
    """The bodies whose puts succeeded, all begun at one moment."""

    def put(body: bytes) -> list[bytes]:
        try:
            store.put(key, body)
        except ObjectExists:
            return []
        return [body]

    return list(chain.from_iterable(run_at_once(*(partial(put, body) for body in bodies))))


def test_of_different_bytes_exactly_one_wins(store_fixture: StoreFixture) -> None:
    [winner] = put_at_once(store_fixture.store, "a/b/c", [bytes([number]) * 100 for number in range(WRITERS)])
    assert store_fixture.store.read("a/b/c", digest(winner)) == winner
    assert sorted_items(store_fixture.store.list_all("a/")) == [("a/b/c", 100, "object")]


def test_of_different_bytes_exactly_one_wins_in_a_folder_every_time(folder_store: FolderStore) -> None:
    for attempt in range(20):
        [winner] = put_at_once(folder_store, f"a/{attempt}", [bytes([number]) * 100 for number in range(2 * WRITERS)])
        assert folder_store.read(f"a/{attempt}", digest(winner)) == winner
    assert len(list(folder_store.list_all(""))) == 20


def test_of_different_bytes_in_many_parts_a_winner_is_whole(s3_store: S3Store) -> None:
    """Not exactly one: the service looks whether the key is free a moment before it takes it, if there are parts."""
    winners = put_at_once(s3_store, "a/b/c", [bytes([number]) * (PART_BYTES + 1) for number in range(2)])
    assert any(is_stored(s3_store, "a/b/c", winner) for winner in winners)
    assert sorted_items(s3_store.list_all("a/")) == [("a/b/c", PART_BYTES + 1, "object")]


def is_stored(store: ObjectStore, key: str, body: bytes) -> bool:
    try:
        return store.read(key, digest(body)) == body
    except ObjectDamaged:
        return False


def test_of_the_same_bytes_everyone_wins(store_fixture: StoreFixture) -> None:
    assert len(put_at_once(store_fixture.store, "a/b/c", [b"same"] * WRITERS)) == WRITERS
    assert sorted_items(store_fixture.store.list_all("a/")) == [("a/b/c", 4, "object")]


def test_puts_survive_removals_of_other_keys(folder_store: FolderStore) -> None:
    """Each removal of the last object takes the folders away into which the others are putting."""

    def come_and_go(number: int) -> None:
        key, body = f"a/b/{number}", str(number).encode()
        for _ in range(40):
            folder_store.put(key, body)
            assert folder_store.read(key, digest(body)) == body
            assert folder_store.remove(key).items == 1

    run_at_once(*(partial(come_and_go, number) for number in range(2 * WRITERS)))
    assert list(folder_store.list_all("")) == []
