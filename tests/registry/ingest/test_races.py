"""Uploads concurrent with uploads and with forgetting: each picture is stored once or not at all."""

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import delete, update

from registry import failpoints
from registry.db.clock import now
from registry.db.models.catalog import Source
from registry.db.models.users import Grant
from registry.errors import Conflict, DatasetRejected, DomainError, Forbidden, NotFound
from registry.ids import new_id
from registry.ingest.upload import IngestResult, add_samples
from tests.registry.ingest.fixtures import Uploader

PATIENCE_SECONDS = 30


def run_together(*acts: Callable[[], IngestResult]) -> list[IngestResult | DomainError]:
    """What came of each; all of them stand before their commit, with their objects written, when the first goes on."""
    barrier = threading.Barrier(len(acts))

    def wait_for_all(point: str) -> None:
        if point == "upload: objects written":
            barrier.wait(PATIENCE_SECONDS)

    def outcome(act: Callable[[], IngestResult]) -> IngestResult | DomainError:
        try:
            return act()
        except DomainError as error:
            return error

    failpoints.on_hit = wait_for_all
    try:
        with ThreadPoolExecutor(len(acts)) as pool:
            return list(pool.map(outcome, acts))
    finally:
        failpoints.on_hit = None


def run_at_failpoint(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Has something happen once, when an upload has written its objects and not its rows."""
    is_over = False

    def on_reach(point: str) -> None:
        nonlocal is_over
        if point == "upload: objects written" and not is_over:
            is_over = True
            act()

    monkeypatch.setattr(failpoints, "on_hit", on_reach)


def digest_of(uploader: Uploader, number: int) -> str:
    return hashlib.sha256(uploader.builder.picture(number)).hexdigest()


@pytest.fixture
def source_id(uploader: Uploader) -> UUID:
    """A source of the pictures 0 to 2."""
    return uploader.upload(uploader.pictures(range(3))).source_id


def test_of_two_new_sources_with_one_name_one_is_refused(uploader: Uploader) -> None:
    paths = [uploader.pictures(range(4)), uploader.pictures(range(4, 8))]

    outcomes = run_together(*(lambda path=path: uploader.upload(path) for path in paths))

    (won,) = [outcome for outcome in outcomes if isinstance(outcome, IngestResult)]
    (lost,) = [outcome for outcome in outcomes if not isinstance(outcome, IngestResult)]
    assert isinstance(lost, Conflict)
    assert uploader.rows()["sources"] == 1
    assert len(uploader.samples(won.source_id)) == won.samples == 4
    uploader.assert_tidy()


def test_two_uploads_of_the_same_pictures_at_once_store_each_picture_once(uploader: Uploader, source_id: UUID) -> None:
    paths = [uploader.pictures(range(10, 16)), uploader.pictures(range(13, 20))]

    outcomes = run_together(*(lambda path=path: uploader.add(source_id, path, shards=2) for path in paths))

    first, second = outcomes
    assert isinstance(first, IngestResult)
    assert isinstance(second, IngestResult)
    assert first.samples + second.samples == 10
    assert len(first.skipped) + len(second.skipped) == 3
    assert len(uploader.samples(source_id)) == 13
    numbers = [shard.number for shard in uploader.shards(source_id)]
    assert numbers == list(range(len(numbers)))
    uploader.assert_tidy()


def test_of_two_identical_uploads_at_once_one_is_refused(uploader: Uploader, source_id: UUID) -> None:
    paths = [uploader.pictures([10, 11]), uploader.pictures([10, 11])]

    outcomes = run_together(*(lambda path=path: uploader.add(source_id, path) for path in paths))

    assert sorted(isinstance(outcome, IngestResult) for outcome in outcomes) == [False, True]
    assert any(isinstance(outcome, DatasetRejected) for outcome in outcomes)
    assert len(uploader.samples(source_id)) == 5
    uploader.assert_tidy()


def test_an_upload_to_a_source_that_is_forgotten_meanwhile_stores_nothing(
    uploader: Uploader, source_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget() -> None:
        with uploader.registry.database.write_transaction() as session:
            session.execute(update(Source).values(name=None, erasure_id=new_id()))

    run_at_failpoint(monkeypatch, forget)

    with pytest.raises(NotFound):
        uploader.add(source_id, uploader.pictures([10, 11]))

    assert len(uploader.samples(source_id)) == 3
    uploader.assert_tidy()


def test_a_right_that_is_revoked_meanwhile_refuses_the_upload(
    uploader: Uploader, source_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = uploader.user()
    with uploader.registry.database.write_transaction() as session:
        for right in ("use", "manage"):
            assert caller.user_id is not None
            session.add(Grant(id=new_id(), user_id=caller.user_id, source_id=source_id, right=right, granted_at=now()))

    def revoke() -> None:
        with uploader.registry.database.write_transaction() as session:
            session.execute(delete(Grant).where(Grant.right == "manage"))

    run_at_failpoint(monkeypatch, revoke)

    with pytest.raises(Forbidden):
        add_samples(uploader.registry, caller, source_id, uploader.pictures([10]))

    uploader.assert_tidy()


def test_a_picture_that_is_forgotten_meanwhile_is_left_out(
    uploader: Uploader, source_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_at_failpoint(monkeypatch, lambda: uploader.forget(source_id, digest_of(uploader, 11), new_id()))

    result = uploader.add(source_id, uploader.pictures([10, 11, 12]), unreadable="skip")

    assert result.samples == 2
    assert [refusal.name for refusal in result.skipped] == ["cat/11.png"]
    assert digest_of(uploader, 11) not in {sample.digest for sample in uploader.samples(source_id)}
    uploader.assert_tidy()


def test_a_picture_that_is_forgotten_meanwhile_refuses_the_whole_unless_it_may_be_skipped(
    uploader: Uploader, source_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_at_failpoint(monkeypatch, lambda: uploader.forget(source_id, digest_of(uploader, 11), new_id()))

    with pytest.raises(DatasetRejected, match="forgotten"):
        uploader.add(source_id, uploader.pictures([10, 11, 12]))

    assert len(uploader.samples(source_id)) == 3
    uploader.assert_tidy()


def test_readmitting_does_not_undo_a_later_erasure(
    uploader: Uploader, source_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = digest_of(uploader, 11)
    uploader.forget(source_id, digest, new_id())

    def readmit_and_forget_again() -> None:
        uploader.add(source_id, uploader.pictures([11]), readmit=True)
        uploader.forget(source_id, digest, new_id())

    run_at_failpoint(monkeypatch, readmit_and_forget_again)

    with pytest.raises(DatasetRejected, match="forgotten"):
        uploader.add(source_id, uploader.pictures([11]), readmit=True)

    assert digest not in {sample.digest for sample in uploader.samples(source_id)}
