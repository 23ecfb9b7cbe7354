"""An upload that fails anywhere leaves no row, no object, no claim and no file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from registry import failpoints
from registry.errors import Conflict, DatabaseUnreachable, DatasetRejected, DomainError
from registry.ingest import upload
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.store import ObjectStore, RemovedCount, StoreUnreachable
from tests.registry.database_fixtures import sqlite_only
from tests.registry.ingest.fixtures import AtFailpoint, Uploader

BEFORE_THE_END = ("upload: claimed", "upload: half the objects", "upload: objects written")


class FailingUploadStore:
    """A real store whose puts fail after so many, and whose removals fail if they shall."""

    @classmethod
    def around(cls, registry: Registry, puts: int, *, removes: bool = True) -> Registry:
        store = cls(registry.objects, puts, removes=removes)
        return replace(registry, objects=cast(ObjectStore, store))

    def __init__(self, store: ObjectStore, puts: int, *, removes: bool) -> None:
        self._store = store
        self._puts = puts
        self._removes = removes

    def __getattr__(self, name: str) -> Any:  # Any: whatever the real one has
        return getattr(self._store, name)

    def put(self, key: str, body: bytes | Path) -> None:
        self._puts -= 1
        if self._puts < 0:
            raise StoreUnreachable("the store does not answer: start it")
        self._store.put(key, body)

    def remove(self, prefix: str) -> RemovedCount:
        if not self._removes:
            raise StoreUnreachable("the store does not answer: start it")
        return self._store.remove(prefix)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_upload_that_is_interrupted_anywhere_leaves_nothing(uploader: Uploader, at_failpoint: AtFailpoint) -> None:
    before = uploader.rows()

    for point in BEFORE_THE_END:
        at_failpoint(interrupt, point)
        with pytest.raises(KeyboardInterrupt):
            uploader.upload(uploader.pictures(range(9)), shards=2)

        assert uploader.rows() == before
        uploader.assert_tidy()


@sqlite_only
def test_the_failpoints_are_hit_once_and_in_order(uploader: Uploader, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    monkeypatch.setattr(failpoints, "on_hit", reached.append)

    uploader.upload(uploader.pictures([1]))

    assert reached == [point for point in failpoints.FAILPOINTS if point.startswith("upload")]


def test_an_upload_that_is_interrupted_after_its_commit_is_all_there(
    uploader: Uploader, at_failpoint: AtFailpoint
) -> None:
    at_failpoint(interrupt, "upload: committed")

    with pytest.raises(KeyboardInterrupt):
        uploader.upload(uploader.pictures(range(9)), shards=2)

    assert uploader.rows()["samples"] == 9
    uploader.assert_tidy()


def test_adding_that_is_interrupted_leaves_the_source_as_it_was(uploader: Uploader, at_failpoint: AtFailpoint) -> None:
    source_id = uploader.upload(uploader.pictures(range(3))).source_id
    before = uploader.rows()
    at_failpoint(interrupt)

    with pytest.raises(KeyboardInterrupt):
        uploader.add(source_id, uploader.pictures(range(2, 6)))

    assert uploader.rows() == before
    uploader.assert_tidy()


def fail_report(done: int, total: int) -> None:
    raise DomainError("the listener is gone")


@pytest.mark.parametrize(
    ("puts", "options", "error"),
    [(25, {}, StoreUnreachable), (40, {"report": fail_report}, DomainError)],
    ids=["the store", "the progress callback"],
)
def test_a_failure_in_the_middle_leaves_nothing(
    uploader: Uploader, puts: int, options: dict[str, Any], error: type[DomainError]
) -> None:
    before = uploader.rows()
    real = uploader.registry
    uploader.registry = FailingUploadStore.around(real, puts)

    with pytest.raises(error, match="listener" if options else None):
        uploader.upload(uploader.pictures(range(40)), shards=2, **options)

    uploader.registry = real
    assert uploader.rows() == before
    uploader.assert_tidy()


def test_objects_in_an_unreachable_store_are_removed_once_it_is_back(uploader: Uploader) -> None:
    real = uploader.registry
    uploader.registry = FailingUploadStore.around(real, puts=5, removes=False)
    with pytest.raises(StoreUnreachable):
        uploader.upload(uploader.pictures(range(20)))
    uploader.registry = real
    assert len(list(real.objects.list_all("sources/"))) == 5

    write_claims.clean_up_abandoned(real.database, real.objects, real.scratch)

    uploader.assert_tidy()


def test_a_commit_whose_result_was_lost_keeps_its_objects(uploader: Uploader, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = upload._commit

    def commit_and_fail(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        raise DatabaseUnreachable("the database does not answer: the connection broke")

    monkeypatch.setattr(upload, "_commit", commit_and_fail)

    with pytest.raises(DatabaseUnreachable):
        uploader.upload(uploader.pictures(range(4)), shards=2)

    assert uploader.rows()["samples"] == 4
    uploader.assert_tidy()


@sqlite_only
def test_a_file_that_changes_while_its_folder_is_read_refuses_the_whole(
    uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = uploader.builder.tree({f"cat/{number}.png": uploader.builder.picture(number) for number in range(5)})
    select = upload._select

    def change_and_select(*arguments: object, **options: object) -> object:
        (folder / "cat" / "3.png").write_bytes(uploader.builder.picture(99))
        return select(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(upload, "_select", change_and_select)

    with pytest.raises(DatasetRejected, match=r"'cat/3\.png' has changed"):
        uploader.upload(folder)

    assert uploader.rows()["sources"] == 0
    uploader.assert_tidy()


def test_a_name_that_was_taken_while_the_pictures_were_written_is_a_conflict(
    uploader: Uploader, at_failpoint: AtFailpoint
) -> None:
    first = uploader.pictures([1])
    at_failpoint(lambda: uploader.upload(first))

    with pytest.raises(Conflict, match="'birds'"):
        uploader.upload(uploader.pictures([2, 3]))

    assert uploader.rows()["samples"] == 1
    uploader.assert_tidy()


@sqlite_only
def test_a_missing_scratch_folder_is_an_error_of_one_line(registry: Registry, uploader: Uploader) -> None:
    registry.scratch.folder.write_text("a file lies where the folder should be")

    with pytest.raises(DomainError, match="scratch"):
        uploader.upload(uploader.pictures([1]))

    assert uploader.rows()["sources"] == 0
