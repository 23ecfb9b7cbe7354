"""Objects are written and read completely, verified, and never overwritten, in every kind of store."""

import stat
from pathlib import Path

import pytest

from registry.storage.keys import InvalidKey
from registry.storage.s3 import PART_BYTES
from registry.storage.store import ObjectDamaged, ObjectExists, ObjectMissing, ObjectStore
from tests.registry.storage.store_fixtures import FolderFixture, StoreFixture, digest, keys_of, sorted_items

KEY = "sources/one/samples/ab"


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 5000])
def test_what_is_put_is_read(object_store: ObjectStore, body: bytes, tmp_path: Path) -> None:
    object_store.put(KEY, body)
    object_store.download(KEY, digest(body), tmp_path / "fetched")
    assert object_store.read(KEY, digest(body)) == body
    assert (tmp_path / "fetched").read_bytes() == body
    assert stat.S_IMODE((tmp_path / "fetched").stat().st_mode) == 0o600


def test_a_file_is_put_as_its_bytes_are(object_store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"pixels")
    object_store.put(KEY, tmp_path / "picture")
    assert object_store.read(KEY, digest(b"pixels")) == b"pixels"


def test_a_body_of_many_parts_arrives_whole(store_fixture: StoreFixture, tmp_path: Path) -> None:
    body = b"".join(bytes([part]) * PART_BYTES for part in range(2)) + b"end"
    (tmp_path / "large").write_bytes(body)
    store_fixture.store.put(KEY, tmp_path / "large")
    store_fixture.store.put(KEY, body)
    store_fixture.store.download(KEY, digest(body), tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == body
    assert sorted_items(store_fixture.store.list_all(KEY)) == [(KEY, len(body), "object")]


@pytest.mark.parametrize("size_bytes", [PART_BYTES, PART_BYTES + 1])
def test_a_body_at_the_edge_of_a_part_arrives_whole(object_store: ObjectStore, size_bytes: int) -> None:
    body = b"." * size_bytes
    object_store.put(KEY, body)
    assert object_store.read(KEY, digest(body)) == body


def test_the_same_bytes_may_be_put_again(store_fixture: StoreFixture) -> None:
    store_fixture.store.put(KEY, b"same")
    store_fixture.store.put(KEY, b"same")
    assert sorted_items(store_fixture.store.list_all(KEY)) == [(KEY, 4, "object")]


@pytest.mark.parametrize("other", [b"diff", b"o" * (PART_BYTES + 1)])
def test_other_bytes_are_refused_and_leave_nothing_behind(store_fixture: StoreFixture, other: bytes) -> None:
    store_fixture.store.put(KEY, b"mine")
    with pytest.raises(ObjectExists, match="never overwritten") as caught:
        store_fixture.store.put(KEY, other)
    assert caught.value.status == 409
    assert store_fixture.store.read(KEY, digest(b"mine")) == b"mine"
    assert sorted_items(store_fixture.store.list_all(KEY)) == [(KEY, 4, "object")]


def test_a_key_can_be_put_again_after_its_removal(store_fixture: StoreFixture) -> None:
    store_fixture.store.put(KEY, b"first")
    store_fixture.store.remove(KEY)
    store_fixture.store.put(KEY, b"second")
    assert store_fixture.store.read(KEY, digest(b"second")) == b"second"


def test_a_missing_body_is_the_callers_fault_and_leaves_nothing_behind(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        object_store.put(KEY, tmp_path / "nowhere")
    assert keys_of(object_store.list_all("")) == []


def test_a_missing_object_is_reported(object_store: ObjectStore, tmp_path: Path) -> None:
    object_store.put(f"{KEY}c", b"sibling")
    with pytest.raises(ObjectMissing, match="does not have"):
        object_store.read(KEY, digest(b""))
    with pytest.raises(ObjectMissing, match="does not have"):
        object_store.read(f"{KEY}c/below", digest(b""))
    with pytest.raises(ObjectMissing, match="does not have"):
        object_store.download(KEY, digest(b""), tmp_path / "fetched")
    assert list(tmp_path.glob("*fetched*")) == []


@pytest.mark.parametrize("damaged", [b"pixelz", b""])
def test_damaged_bytes_are_never_returned(store_fixture: StoreFixture, tmp_path: Path, damaged: bytes) -> None:
    store_fixture.store.put(KEY, b"pixels")
    store_fixture.overwrite(KEY, damaged)
    with pytest.raises(ObjectDamaged) as caught:
        store_fixture.store.read(KEY, digest(b"pixels"))
    with pytest.raises(ObjectDamaged):
        store_fixture.store.download(KEY, digest(b"pixels"), tmp_path / "fetched")
    assert caught.value.status == 500
    assert [path for path in tmp_path.iterdir() if "fetched" in path.name] == []


def test_a_failed_download_leaves_an_older_file_unchanged(object_store: ObjectStore, tmp_path: Path) -> None:
    object_store.put(KEY, b"new")
    (tmp_path / "fetched").write_bytes(b"old")
    with pytest.raises(ObjectDamaged):
        object_store.download(KEY, digest(b"newer"), tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == b"old"


def test_what_a_folder_holds_is_private(folder_fixture: FolderFixture) -> None:
    folder_fixture.store.put(KEY, b"pixels")
    path = folder_fixture.root / KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(above.stat().st_mode) for above in (path.parent, folder_fixture.root)} == {0o700}


def test_no_store_takes_a_key_that_leads_elsewhere(object_store: ObjectStore, tmp_path: Path) -> None:
    for ask in (
        lambda: object_store.put("../out", b""),
        lambda: object_store.read("../out", ""),
        lambda: object_store.download("../out", "", tmp_path / "fetched"),
        lambda: object_store.list_objects("../"),
        lambda: object_store.list_all("../"),
        lambda: object_store.remove("../"),
    ):
        with pytest.raises(InvalidKey):
            ask()
