"""More pictures for a source: duplicates, forgotten pictures that come back, and shards that stay as they are."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from registry.errors import DatasetRejected, Forbidden, NotFound
from registry.ingest.upload import add_samples
from tests.registry.database_fixtures import sqlite_only
from tests.registry.ingest.fixtures import Uploader


@pytest.fixture
def source_id(uploader: Uploader) -> UUID:
    """A source of the pictures 0 to 4."""
    return uploader.upload(uploader.pictures(range(5)), shards=2).source_id


def shard_columns(uploader: Uploader, source_id: UUID) -> list[tuple[object, ...]]:
    return [(s.id, s.number, s.generation, s.seed, s.attempts) for s in uploader.shards(source_id)]


def test_added_pictures_form_new_shards_and_leave_the_old_alone(uploader: Uploader, source_id: UUID) -> None:
    shards, samples = shard_columns(uploader, source_id), {(s.digest, s.shard_id) for s in uploader.samples(source_id)}

    result = uploader.add(source_id, uploader.pictures(range(10, 40)), shards=3)

    assert shard_columns(uploader, source_id)[: len(shards)] == shards
    assert samples < {(s.digest, s.shard_id) for s in uploader.samples(source_id)}
    added = uploader.shards(source_id)[len(shards) :]
    assert [shard.id for shard in added] == list(result.shards)
    assert [shard.number for shard in added] == list(range(len(shards), len(shards) + len(added)))
    assert {s.shard_id for s in uploader.samples(source_id) if (s.digest, s.shard_id) not in samples} == set(
        result.shards
    )
    assert uploader.log()[-1].action == "samples.added"
    uploader.assert_tidy()


def test_known_pictures_are_left_out_and_reported(uploader: Uploader, source_id: UUID) -> None:
    result = uploader.add(source_id, uploader.pictures(range(3, 7)))

    assert result.samples == 2
    assert [(r.name, r.reason) for r in result.skipped_files] == [
        ("cat/3.png", "is in the source already"),
        ("cat/4.png", "is in the source already"),
    ]
    assert len(uploader.samples(source_id)) == 7
    uploader.assert_tidy()


@sqlite_only
def test_an_upload_without_anything_new_is_refused(uploader: Uploader, source_id: UUID) -> None:
    before = uploader.rows()

    for unreadable in ("refuse", "skip"):
        with pytest.raises(DatasetRejected, match=r"no picture is new to the source \('cat/1\.png' .* and 1 more\)"):
            uploader.add(source_id, uploader.pictures([1, 2]), unreadable=unreadable)

    assert uploader.rows() == before
    uploader.assert_tidy()


@sqlite_only
def test_a_known_picture_with_another_label_is_refused(uploader: Uploader, source_id: UUID) -> None:
    path = uploader.builder.zip({"dog/1.png": uploader.builder.picture(1), "dog/9.png": uploader.builder.picture(9)})

    with pytest.raises(DatasetRejected, match=r"'dog/1\.png' labelled 'dog', but in the source already"):
        uploader.add(source_id, path)
    result = uploader.add(source_id, path, unreadable="skip")

    assert (result.samples, len(result.skipped_files)) == (1, 1)
    assert {s.label for s in uploader.samples(source_id) if s.digest == uploader.digest(1)} == {"cat"}


@sqlite_only
def test_another_source_may_have_the_same_pictures(uploader: Uploader, source_id: UUID) -> None:
    assert uploader.upload(uploader.pictures(range(5)), "other birds").samples == 5
    uploader.assert_tidy()


def test_a_forgotten_picture_refuses_the_upload_or_is_skipped(uploader: Uploader, source_id: UUID) -> None:
    uploader.forget(source_id, 20)
    before = uploader.rows()

    with pytest.raises(DatasetRejected, match=r"1 of 2 pictures .*'cat/20\.png' was forgotten on 20\d\d-.*--readmit"):
        uploader.add(source_id, uploader.pictures([20, 21]))
    assert uploader.rows() == before
    uploader.assert_tidy()
    result = uploader.add(source_id, uploader.pictures([20, 21]), unreadable="skip")

    assert result.samples == 1
    (refusal,) = result.skipped_files
    assert refusal.name == "cat/20.png"
    assert f"was forgotten on {datetime.now(UTC):%Y-}" in refusal.reason
    assert uploader.digest(20) not in {s.digest for s in uploader.samples(source_id)}


def test_a_forgotten_picture_comes_back_with_readmit(uploader: Uploader, source_id: UUID) -> None:
    for number in (20, 30):
        uploader.forget(source_id, number)

    result = uploader.add(source_id, uploader.pictures([20, 21]), readmit=True)

    assert result.samples == 2
    assert uploader.rows()["tombstones"] == 1  # the other one's
    assert uploader.log()[-1].subject["readmitted"] == 1


@sqlite_only
def test_readmitting_needs_the_right_to_forget(uploader: Uploader, source_id: UUID) -> None:
    uploader.forget(source_id, 20)
    path = uploader.pictures([20])
    manager = uploader.user("predictor", "manage", source_id=source_id)
    both = uploader.user("predictor", "manage", "forget", source_id=source_id)

    with pytest.raises(Forbidden, match="forget"):
        add_samples(uploader.registry, manager, source_id, path, readmit=True)
    assert add_samples(uploader.registry, both, source_id, path, readmit=True).samples == 1


@sqlite_only
def test_adding_needs_the_right_to_manage(uploader: Uploader, source_id: UUID) -> None:
    path = uploader.pictures([20])
    manager = uploader.user("predictor", "manage", source_id=source_id)

    for other in [
        uploader.user("predictor", "use", source_id=source_id),
        uploader.user("predictor", "forget", source_id=source_id),
    ]:
        with pytest.raises(Forbidden):
            add_samples(uploader.registry, other, source_id, path)
    with pytest.raises(NotFound):
        add_samples(uploader.registry, uploader.user("owner"), source_id, path)
    assert add_samples(uploader.registry, manager, source_id, path).samples == 1


@sqlite_only
def test_nothing_is_added_to_a_source_that_is_being_forgotten(uploader: Uploader, source_id: UUID) -> None:
    uploader.forget_source()

    with pytest.raises(NotFound):
        uploader.add(source_id, uploader.pictures([20]))
