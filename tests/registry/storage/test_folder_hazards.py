"""Hazards of a folder: symbolic links, foreign files, a full disk, a missing disk."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from registry.storage.folder import FolderStore
from registry.storage.store import ObjectDamaged, ObjectExists, RemovedCount, StoreUnreachable
from tests.registry.storage.store_fixtures import FolderFixture, digest, keys_of, sorted_items


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else, with a file that must be there afterwards."""
    folder = tmp_path / "outside"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "c").write_bytes(b"theirs")
    return folder


def test_a_link_to_a_folder_is_never_followed(folder_fixture: FolderFixture, outside: Path) -> None:
    (folder_fixture.root / "a").symlink_to(outside)
    store = folder_fixture.store
    with pytest.raises(StoreUnreachable, match="remove the link or file"):
        store.put("a/b/new", b"mine")
    assert list(store.list_objects("")) == []
    for ask in (  # nor does it pass for an empty folder: what should be here may lie behind it
        lambda: store.read("a/b/c", digest(b"theirs")),
        lambda: list(store.list_all("a/")),
        lambda: store.remove("a/"),
        lambda: store.remove("a/b/c"),
    ):
        with pytest.raises(StoreUnreachable, match="remove the link or file"):
            ask()
    assert sorted_items(store.list_all("")) == [("a", 0, "unfinished")]
    assert store.remove("") == RemovedCount(1, 0)
    assert sorted(path.name for path in outside.rglob("*")) == ["b", "c"]


def test_a_link_in_the_place_of_an_object_is_never_followed(folder_fixture: FolderFixture, outside: Path) -> None:
    (folder_fixture.root / "a").mkdir()
    (folder_fixture.root / "a/b").symlink_to(outside / "b/c")
    store = folder_fixture.store
    with pytest.raises(ObjectDamaged):
        store.read("a/b", digest(b"theirs"))
    with pytest.raises(ObjectExists):
        store.put("a/b", b"theirs")
    assert list(store.list_objects("a/")) == []
    assert store.remove("a/b") == RemovedCount(1, 0)
    assert (outside / "b/c").read_bytes() == b"theirs"
    assert list(folder_fixture.root.iterdir()) == []


def test_a_dangling_link_is_not_followed(folder_fixture: FolderFixture, tmp_path: Path) -> None:
    (folder_fixture.root / "a").symlink_to(tmp_path / "planted")
    with pytest.raises(ObjectExists):
        folder_fixture.store.put("a", b"mine")
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_folder_instead_of_an_object_is_damage_and_does_not_hang(
    folder_fixture: FolderFixture, make: type
) -> None:
    make(folder_fixture.root / "a")
    with pytest.raises(ObjectDamaged):
        folder_fixture.store.read("a", digest(b""))
    with pytest.raises(ObjectExists):
        folder_fixture.store.put("a", b"")
    assert list(folder_fixture.store.list_objects("")) == []


def test_the_root_itself_may_be_a_link(outside: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    store = FolderStore(tmp_path / "link")
    store.check()
    store.put("b/d", b"mine")
    assert keys_of(store.list_objects("")) == ["b/c", "b/d"]


def test_a_key_below_an_object_is_refused(folder_fixture: FolderFixture) -> None:
    folder_fixture.store.put("a/b", b"1")
    with pytest.raises(StoreUnreachable, match="where a folder should be"):
        folder_fixture.store.put("a/b/c", b"2")
    assert sorted_items(folder_fixture.store.list_all("")) == [("a/b", 1, "object")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_reported_and_leaves_nothing(
    folder_fixture: FolderFixture, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(StoreUnreachable, match="no space left: make room") as caught:
        folder_fixture.store.put("a/b", b"1")
    assert caught.value.status == 503
    assert list(folder_fixture.store.list_all("")) == []


def test_partial_writes_are_completed(folder_fixture: FolderFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, piece: real(descriptor, piece[:3]))
    folder_fixture.store.put("a/b", b"0123456789")
    assert folder_fixture.store.read("a/b", digest(b"0123456789")) == b"0123456789"


def test_a_full_scratch_disk_is_reported_and_leaves_nothing(
    folder_fixture: FolderFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder_fixture.store.put("a/b", b"1")
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(StoreUnreachable, match="No space left"):
        folder_fixture.store.download("a/b", digest(b"1"), tmp_path / "fetched")
    assert [path.name for path in tmp_path.iterdir()] == ["objects"]


def test_a_download_into_a_missing_folder_is_reported(folder_fixture: FolderFixture, tmp_path: Path) -> None:
    folder_fixture.store.put("a/b", b"1")
    with pytest.raises(StoreUnreachable, match="check its folder"):
        folder_fixture.store.download("a/b", digest(b"1"), tmp_path / "nowhere" / "fetched")


def test_nothing_is_written_while_the_root_is_missing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "not" / "yet")
    with pytest.raises(StoreUnreachable, match="mount its disk"):
        store.put("a/b", b"1")
    assert list(tmp_path.iterdir()) == []
    store.prepare()
    store.put("a/b", b"1")
    assert store.read("a/b", digest(b"1")) == b"1"


def test_a_missing_root_is_not_an_empty_store(tmp_path: Path) -> None:
    """An unmounted disk must not look as if everything on it had been erased."""
    store = FolderStore(tmp_path / "disk")
    for ask in (
        lambda: store.remove("a/"),
        lambda: list(store.list_all("a/")),
        lambda: list(store.list_objects("")),
        lambda: store.read("a/b", ""),
        store.check,
    ):
        with pytest.raises(StoreUnreachable, match="there is no folder disk: mount its disk"):
            ask()
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "objects").write_bytes(b"")
    store = FolderStore(tmp_path / "objects")
    with pytest.raises(StoreUnreachable):
        store.check()
    with pytest.raises(StoreUnreachable):
        store.put("a", b"")


def test_everything_on_the_way_to_an_object_is_flushed(
    folder_fixture: FolderFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    folder_fixture.store.put("a/b/c", b"1")
    root = folder_fixture.root
    assert flushed[0].startswith(f"{root}/a/b/.c.")
    assert flushed[1:] == [f"{root}/a/b", f"{root}/a", str(root)]
    flushed.clear()
    folder_fixture.store.remove("a/b/c")
    assert flushed[-1] == str(root)
    flushed.clear()
    folder_fixture.store.remove("a/b/c")
    assert flushed == [str(root)]
