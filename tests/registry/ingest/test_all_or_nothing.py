"""Whatever goes wrong, and wherever: an upload that fails leaves no row, no object, no claim and no file."""

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
from tests.registry.ingest.fixtures import AtPoint, Desk

BEFORE_THE_END = ("upload: claimed", "upload: half the objects", "upload: objects written")
embedded = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)  # what no home has a say in


class StoreWithFaults:
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


def test_an_upload_that_is_interrupted_anywhere_leaves_nothing(desk: Desk, at_point: AtPoint) -> None:
    before = desk.rows()

    for point in BEFORE_THE_END:
        at_point(point, interrupt)
        with pytest.raises(KeyboardInterrupt):
            desk.upload(desk.pictures(range(9)), shards=2)

        assert desk.rows() == before
        desk.assert_tidy()


@embedded
def test_the_points_are_reached_once_and_in_their_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    monkeypatch.setattr(failpoints, "on_hit", reached.append)

    desk.upload(desk.pictures([1]))

    assert reached == [point for point in failpoints.FAILPOINTS if point.startswith("upload")]


def test_an_upload_that_is_interrupted_after_its_commit_is_all_there(desk: Desk, at_point: AtPoint) -> None:
    at_point("upload: committed", interrupt)

    with pytest.raises(KeyboardInterrupt):
        desk.upload(desk.pictures(range(9)), shards=2)

    assert desk.rows()["samples"] == 9
    desk.assert_tidy()


def test_adding_that_is_interrupted_leaves_the_source_as_it_was(desk: Desk, at_point: AtPoint) -> None:
    source_id = desk.upload(desk.pictures(range(3))).source_id
    before = desk.rows()
    at_point("upload: objects written", interrupt)

    with pytest.raises(KeyboardInterrupt):
        desk.add(source_id, desk.pictures(range(2, 6)))

    assert desk.rows() == before
    desk.assert_tidy()


def test_a_store_that_fails_in_the_middle_leaves_nothing(desk: Desk) -> None:
    before = desk.rows()
    real = desk.registry
    desk.registry = StoreWithFaults.around(real, puts=25)

    with pytest.raises(StoreUnreachable):
        desk.upload(desk.pictures(range(40)), shards=2)

    desk.registry = real
    assert desk.rows() == before
    desk.assert_tidy()


def test_what_a_store_that_is_gone_keeps_is_cleared_up_once_it_is_back(desk: Desk) -> None:
    real = desk.registry
    desk.registry = StoreWithFaults.around(real, puts=5, removes=False)
    with pytest.raises(StoreUnreachable):
        desk.upload(desk.pictures(range(20)))
    desk.registry = real
    assert len(list(real.objects.list_all("sources/"))) == 5

    write_claims.clean_up_abandoned(real.database, real.objects, real.scratch)

    desk.assert_tidy()


def test_a_commit_whose_answer_was_lost_keeps_its_objects(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = upload._commit

    def commit_and_lose_the_answer(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        raise DatabaseUnreachable("the database does not answer: the connection broke")

    monkeypatch.setattr(upload, "_commit", commit_and_lose_the_answer)

    with pytest.raises(DatabaseUnreachable):
        desk.upload(desk.pictures(range(4)), shards=2)

    assert desk.rows()["samples"] == 4
    desk.assert_tidy()


@embedded
def test_a_file_that_changes_while_its_folder_is_read_refuses_the_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = desk.shop.tree({f"cat/{number}.png": desk.shop.picture(number) for number in range(5)})
    choose = upload._select

    def change_and_choose(*arguments: object, **options: object) -> object:
        (folder / "cat" / "3.png").write_bytes(desk.shop.picture(99))
        return choose(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(upload, "_select", change_and_choose)

    with pytest.raises(DatasetRejected, match=r"'cat/3\.png' has changed"):
        desk.upload(folder)

    assert desk.rows()["sources"] == 0
    desk.assert_tidy()


def test_a_name_that_was_taken_while_the_pictures_were_written_is_a_conflict(desk: Desk, at_point: AtPoint) -> None:
    first = desk.pictures([1])

    def be_faster() -> None:
        failpoints.on_hit = None
        desk.upload(first)

    at_point("upload: objects written", be_faster)

    with pytest.raises(Conflict, match="'birds'"):
        desk.upload(desk.pictures([2, 3]))

    assert desk.rows()["samples"] == 1
    desk.assert_tidy()


@embedded
def test_an_error_of_who_listens_to_progress_leaves_nothing(desk: Desk) -> None:
    def fail(done: int, total: int) -> None:
        raise DomainError("the listener is gone")

    with pytest.raises(DomainError, match="listener"):
        desk.upload(desk.pictures(range(20)), report=fail)

    assert desk.rows()["sources"] == 0
    desk.assert_tidy()


@embedded
def test_a_registry_without_scratch_is_told_in_one_line(registry: Registry, desk: Desk) -> None:
    registry.scratch.folder.write_text("a file lies where the folder should be")

    with pytest.raises(DomainError, match="scratch"):
        desk.upload(desk.pictures([1]))

    assert desk.rows()["sources"] == 0
