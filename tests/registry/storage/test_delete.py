"""A removal deletes everything under the prefix, of every kind, and nothing else."""

from collections.abc import Iterator
from typing import BinaryIO
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from registry.storage import folder, s3_versions
from registry.storage.files import iter_chunks
from registry.storage.store import RemovedCount, StoreUnreachable
from tests.registry.storage.store_fixtures import FolderFixture, S3Fixture, StoreFixture, digest, keys_of, sorted_items


def test_what_is_removed_is_counted_and_gone(store_fixture: StoreFixture) -> None:
    store_fixture.store.put("a/b", b"1")
    store_fixture.store.put("a/c/d", b"22")
    store_fixture.leave_unfinished("a/e", b"333")
    assert store_fixture.store.remove("a/") == RemovedCount(items=3, size_bytes=6)
    assert list(store_fixture.store.list_all("a/")) == []
    for key in ("c", "b/c", "b/d/e"):
        store_fixture.store.put(key, b"1")
    everything = list(store_fixture.store.list_all(""))
    assert {"c", "b/c", "b/d/e"} <= set(keys_of(everything))
    expected = RemovedCount(len(everything), sum(item.size_bytes for item in everything))
    assert store_fixture.store.remove("") == expected
    assert list(store_fixture.store.list_all("")) == []


def test_removing_nothing_is_no_error(store_fixture: StoreFixture) -> None:
    assert store_fixture.store.remove("a/b") == RemovedCount(0, 0)
    assert store_fixture.store.remove("a/") == RemovedCount(0, 0)
    store_fixture.store.put("a/b", b"1")
    assert store_fixture.store.remove("a/b") == RemovedCount(1, 1)
    assert store_fixture.store.remove("a/b") == RemovedCount(0, 0)


def test_a_sibling_is_never_touched(store_fixture: StoreFixture) -> None:
    for key in ("samples/ab", "samples/abc", "samples/a", "samples-2/ab"):
        store_fixture.store.put(key, b"x")
        store_fixture.leave_unfinished(key, b"yy")
    assert store_fixture.store.remove("samples/ab") == RemovedCount(2, 3)
    assert keys_of(store_fixture.store.list_objects("samples/")) == ["samples/a", "samples/abc"]
    store_fixture.store.remove("samples/")
    assert sorted_items(store_fixture.store.list_all("samples-2/")) == [
        ("samples-2/ab", 1, "object"),
        ("samples-2/ab", 2, "unfinished"),
    ]


def test_a_prefix_that_is_no_whole_key_removes_nothing(store_fixture: StoreFixture) -> None:
    store_fixture.store.put("samples/ab", b"x")
    assert store_fixture.store.remove("samples") == RemovedCount(0, 0)
    assert store_fixture.store.remove("samples/a") == RemovedCount(0, 0)
    assert store_fixture.store.remove("sam/") == RemovedCount(0, 0)
    assert store_fixture.store.read("samples/ab", digest(b"x")) == b"x"


def test_every_version_and_marker_is_removed(bucket_fixture: S3Fixture) -> None:
    for body in (b"1", b"22", b"333"):
        bucket_fixture.overwrite("a/b", body)
        bucket_fixture.delete("a/b")
    bucket_fixture.overwrite("a/b", b"4444")
    bucket_fixture.overwrite("a/bc", b"5")
    bucket_fixture.leave_unfinished("a/b", b"66")
    bucket_fixture.store.remove("a/b")
    assert [key for key in bucket_fixture.everything() if "from/then" not in key] == [f"{bucket_fixture.prefix}a/bc"]


def test_versions_from_before_the_suspension_are_removed(suspended_fixture: S3Fixture) -> None:
    suspended_fixture.overwrite("from/then", b"two of two")
    assert suspended_fixture.store.remove("from/") == RemovedCount(3, 18)
    assert suspended_fixture.everything() == []


def test_removal_crosses_pages(bucket_fixture: S3Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_versions, "PAGE_SIZE", 3)
    for number in range(8):
        bucket_fixture.store.put(f"d/{number}", b"1")
        bucket_fixture.overwrite(f"d/{number}", b"22")
    for number in range(4):
        bucket_fixture.leave_unfinished(f"d/{number}", b"333")
    bucket_fixture.store.remove("")
    assert bucket_fixture.everything() == []


def test_emptied_folders_are_removed_and_the_root_stays(folder_fixture: FolderFixture) -> None:
    folder_fixture.store.put("a/b/c", b"1")
    folder_fixture.store.put("a/d", b"1")
    folder_fixture.store.remove("a/b/c")
    assert sorted(path.name for path in (folder_fixture.root / "a").iterdir()) == ["d"]
    folder_fixture.store.remove("a/d")
    assert list(folder_fixture.root.iterdir()) == []


def test_empty_folders_of_a_killed_writer_are_removed(folder_fixture: FolderFixture) -> None:
    (folder_fixture.root / "a/b/c/d").mkdir(parents=True)
    (folder_fixture.root / "e/f").mkdir(parents=True)
    folder_fixture.store.remove("a/b/")
    folder_fixture.store.remove("e/f/g/h")
    assert list(folder_fixture.root.iterdir()) == []


def test_foreign_files_below_a_prefix_are_removed_too(folder_fixture: FolderFixture) -> None:
    folder_fixture.store.put("a/b", b"1")
    (folder_fixture.root / "a/.copy of b").mkdir()
    (folder_fixture.root / "a/.copy of b/b~").write_bytes(b"22")
    assert folder_fixture.store.remove("a/") == RemovedCount(2, 3)
    assert list(folder_fixture.root.iterdir()) == []


def test_a_put_continues_when_its_folder_is_removed_meanwhile(
    folder_fixture: FolderFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    removals: list[RemovedCount] = []

    def pieces_meanwhile(file: BinaryIO) -> Iterator[bytes]:
        # The body is read after its folder is made, and before its object is there.
        if len(removals) < 3:
            removals.append(folder_fixture.store.remove("a/"))
        yield from iter_chunks(file)

    monkeypatch.setattr(folder, "iter_chunks", pieces_meanwhile)
    folder_fixture.store.put("a/b/c", b"pixels")
    monkeypatch.undo()
    assert [removed.items for removed in removals] == [1, 1, 1]
    assert folder_fixture.store.read("a/b/c", digest(b"pixels")) == b"pixels"
    assert sorted_items(folder_fixture.store.list_all("")) == [("a/b/c", 6, "object")]


def test_an_object_that_the_service_does_not_delete_is_reported(
    s3_fixture: S3Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_fixture.store.put("a/b", b"1")
    refusal = {"Errors": [{"Key": "a/b", "Code": "AccessDenied"}]}
    monkeypatch.setattr(s3_fixture.store._client, "delete_objects", lambda **_: refusal)
    with pytest.raises(StoreUnreachable, match=r"did not delete 1 of 1 objects, a/b first \(AccessDenied\)"):
        s3_fixture.store.remove("a/")


def test_a_service_that_deletes_nothing_is_reported(s3_fixture: S3Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_fixture.store.put("a/b", b"1")
    monkeypatch.setattr(s3_fixture.store._client, "delete_objects", lambda **_: {})
    with pytest.raises(StoreUnreachable, match="fills as fast as it is emptied"):
        s3_fixture.store.remove("a/")


def test_a_service_without_versions_is_emptied_of_what_is_visible(
    s3_fixture: S3Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_fixture.store.put("a/b", b"1")
    s3_fixture.leave_unfinished("a/c", b"22")
    real = s3_fixture.store._client.get_paginator

    refusing = Mock(paginate=Mock(side_effect=ClientError({"Error": {"Code": "NotImplemented"}}, "ListObjectVersions")))
    monkeypatch.setattr(
        s3_fixture.store._client,
        "get_paginator",
        lambda name: refusing if name == "list_object_versions" else real(name),
    )
    assert s3_fixture.store.remove("a/") == RemovedCount(2, 3)
    assert s3_fixture.everything() == []
