"""Uploads concurrent with uploads and with forgetting: each picture is stored once or not at all."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import delete

from registry import failpoints
from registry.db.models.users import Grant
from registry.errors import Conflict, DatasetRejected, DomainError, Forbidden, NotFound
from registry.ingest.upload import IngestResult, add_samples
from tests.registry.ingest.fixtures import AtFailpoint, Uploader

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
    assert len(first.skipped_files) + len(second.skipped_files) == 3
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


def revoke_manage(uploader: Uploader, _: UUID) -> None:
    with uploader.registry.database.write_transaction() as session:
        session.execute(delete(Grant).where(Grant.right == "manage"))


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        pytest.param(lambda uploader, _: uploader.forget_source(), NotFound, id="source forgotten"),
        pytest.param(lambda uploader, source: uploader.forget(source, 11), DatasetRejected, id="picture forgotten"),
        pytest.param(revoke_manage, Forbidden, id="right revoked"),
    ],
)
def test_what_happens_meanwhile_refuses_the_upload(
    uploader: Uploader,
    source_id: UUID,
    at_failpoint: AtFailpoint,
    meanwhile: Callable[[Uploader, UUID], None],
    error: type[DomainError],
) -> None:
    caller = uploader.user("predictor", "use", "manage", source_id=source_id)
    at_failpoint(lambda: meanwhile(uploader, source_id))

    with pytest.raises(error, match="forgotten" if error is DatasetRejected else None):
        add_samples(uploader.registry, caller, source_id, uploader.pictures([10, 11, 12]))

    assert len(uploader.samples(source_id)) == 3
    uploader.assert_tidy()


def test_a_picture_that_is_forgotten_meanwhile_can_be_skipped(
    uploader: Uploader, source_id: UUID, at_failpoint: AtFailpoint
) -> None:
    at_failpoint(lambda: uploader.forget(source_id, 11))

    result = uploader.add(source_id, uploader.pictures([10, 11, 12]), unreadable="skip")

    assert result.samples == 2
    assert [refusal.name for refusal in result.skipped_files] == ["cat/11.png"]
    assert uploader.digest(11) not in {sample.digest for sample in uploader.samples(source_id)}
    uploader.assert_tidy()


def test_readmitting_does_not_undo_a_later_erasure(
    uploader: Uploader, source_id: UUID, at_failpoint: AtFailpoint
) -> None:
    uploader.forget(source_id, 11)

    def readmit_and_forget_again() -> None:
        uploader.add(source_id, uploader.pictures([11]), readmit=True)
        uploader.forget(source_id, 11)

    at_failpoint(readmit_and_forget_again)

    with pytest.raises(DatasetRejected, match="forgotten"):
        uploader.add(source_id, uploader.pictures([11]), readmit=True)

    assert uploader.digest(11) not in {sample.digest for sample in uploader.samples(source_id)}
