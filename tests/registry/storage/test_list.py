"""Listings have all pages, in order, and nothing outside of the prefix."""

import hashlib
import uuid

import pytest

from registry.storage import s3_versions
from registry.storage.keys import prompt_key, sample_key, shard_prefix, source_prefix
from registry.storage.store import ObjectStore, StoredItem
from tests.registry.storage.store_fixtures import FolderFixture, S3Fixture, StoreFixture, keys_of, sorted_items


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_versions, "PAGE_SIZE", 3)


def test_an_empty_store_lists_nothing(object_store: ObjectStore) -> None:
    assert list(object_store.list_objects("")) == []
    assert list(object_store.list_all("")) == []
    assert list(object_store.list_objects("a/")) == []
    assert list(object_store.list_all("a/b")) == []


def test_objects_are_listed_with_their_sizes_in_the_order_of_keys(object_store: ObjectStore) -> None:
    for key in ("b", "a/z", "a/b/c", "a0"):
        object_store.put(key, key.encode())
    expected = [StoredItem(key, len(key), "object") for key in ("a/b/c", "a/z", "a0", "b")]
    assert list(object_store.list_objects("")) == expected
    assert list(object_store.list_all("")) == expected
    assert keys_of(object_store.list_objects("a/")) == ["a/b/c", "a/z"]


def test_a_folders_order_is_that_of_whole_keys(folder_fixture: FolderFixture) -> None:
    names = ["a-b", "a.b", "a/b", "a/b-c/d", "a/b.c", "a0", "aa"]
    for key in reversed(names):
        folder_fixture.store.put(key, b"")
    assert keys_of(folder_fixture.store.list_objects("")) == sorted(names)


def test_a_whole_key_means_itself_alone(store_fixture: StoreFixture) -> None:
    for key in ("samples/ab", "samples/abc", "samples/a", "other/samples/ab"):
        store_fixture.store.put(key, b"x")
    assert keys_of(store_fixture.store.list_objects("samples/ab")) == ["samples/ab"]
    assert keys_of(store_fixture.store.list_all("samples/ab")) == ["samples/ab"]
    assert keys_of(store_fixture.store.list_objects("samples")) == []
    assert keys_of(store_fixture.store.list_all("sampl")) == []
    assert keys_of(store_fixture.store.list_objects("sampl/")) == []


def test_every_page_is_read(store_fixture: StoreFixture, small_pages: None) -> None:
    source, shards = uuid.uuid4(), [uuid.uuid4(), uuid.uuid4()]
    made = [sample_key(source, shard, hashlib.sha256(bytes([n])).hexdigest()) for shard in shards for n in range(5)]
    made += [prompt_key(source, shard, generation, uuid.uuid4()) for shard in shards for generation in range(2)]
    for key in made:
        store_fixture.store.put(key, b"x")
    assert keys_of(store_fixture.store.list_objects(source_prefix(source))) == sorted(made)
    assert sorted(keys_of(store_fixture.store.list_all(source_prefix(source)))) == sorted(made)
    below = shard_prefix(source, shards[0])
    assert keys_of(store_fixture.store.list_objects(below)) == sorted(key for key in made if key.startswith(below))


def test_every_page_of_versions_markers_and_uploads_is_read(versioned_fixture: S3Fixture, small_pages: None) -> None:
    for number in range(4):
        versioned_fixture.store.put(f"d/{number}", b"1")
        versioned_fixture.overwrite(f"d/{number}", b"22")
        versioned_fixture.delete(f"d/{number}")
        versioned_fixture.leave_unfinished(f"d/{number}", b"333")
    expected = [
        one
        for number in range(4)
        for one in (
            (f"d/{number}", 0, "marker"),
            (f"d/{number}", 1, "version"),
            (f"d/{number}", 2, "version"),
            (f"d/{number}", 3, "unfinished"),
        )
    ]
    assert sorted_items(versioned_fixture.store.list_all("d/")) == expected
    assert list(versioned_fixture.store.list_objects("d/")) == []


def test_the_file_of_a_killed_writer_is_listed_as_unfinished(store_fixture: StoreFixture) -> None:
    store_fixture.leave_unfinished("samples/ab", b"half")
    store_fixture.store.put("samples/abc", b"sibling")
    assert list(store_fixture.store.list_objects("samples/ab")) == []
    assert sorted_items(store_fixture.store.list_all("samples/ab")) == [("samples/ab", 4, "unfinished")]
    assert sorted_items(store_fixture.store.list_all("samples/")) == [
        ("samples/ab", 4, "unfinished"),
        ("samples/abc", 7, "object"),
    ]


def test_an_unfinished_file_of_another_key_is_not_mistaken(folder_fixture: FolderFixture) -> None:
    folder_fixture.leave_unfinished("a/x.y", b"1")
    assert list(folder_fixture.store.list_all("a/x")) == []
    assert keys_of(folder_fixture.store.list_all("a/x.y")) == ["a/x.y"]


def test_a_foreign_file_in_the_folder_is_listed_as_unfinished(folder_fixture: FolderFixture) -> None:
    folder_fixture.store.put("a/b", b"1")
    (folder_fixture.root / "a" / ".DS Store").write_bytes(b"22")
    assert keys_of(folder_fixture.store.list_objects("")) == ["a/b"]
    assert sorted_items(folder_fixture.store.list_all("a/")) == [("a/.DS Store", 2, "unfinished"), ("a/b", 1, "object")]


def test_two_prefixes_of_one_bucket_do_not_see_each_other(s3_fixture: S3Fixture) -> None:
    s3_fixture.store.put("a/b", b"mine")
    s3_fixture.client.put_object(Bucket=s3_fixture.bucket, Key=f"{s3_fixture.prefix[:-1]}-other/a/b", Body=b"theirs")
    assert sorted_items(s3_fixture.store.list_all("")) == [("a/b", 4, "object")]
    s3_fixture.store.remove("")
    theirs = s3_fixture.client.get_object(Bucket=s3_fixture.bucket, Key=f"{s3_fixture.prefix[:-1]}-other/a/b")
    assert theirs["Body"].read() == b"theirs"
