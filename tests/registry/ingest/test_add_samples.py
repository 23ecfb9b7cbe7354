"""More pictures for a source: duplicates, forgotten ones that come again, and shards that stay as they are."""

import hashlib
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import update

from alacarte.api.literals import Right
from registry.access.caller import Caller
from registry.db.clock import now
from registry.db.models.catalog import Source
from registry.db.models.users import Grant
from registry.errors import DatasetRejected, Forbidden, NotFound
from registry.ids import new_id
from registry.ingest.upload import add_samples
from tests.registry.ingest.fixtures import Desk

embedded = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)  # what no home has a say in


def digest_of(desk: Desk, number: int) -> str:
    return hashlib.sha256(desk.shop.picture(number)).hexdigest()


def grant(desk: Desk, source_id: UUID, *rights: Right) -> Caller:
    caller = desk.user()
    assert caller.user_id is not None
    with desk.registry.database.write_transaction() as session:
        for right in rights:
            session.add(Grant(id=new_id(), user_id=caller.user_id, source_id=source_id, right=right, granted_at=now()))
    return caller


@pytest.fixture
def source_id(desk: Desk) -> UUID:
    """A source of the pictures 0 to 4."""
    return desk.upload(desk.pictures(range(5)), shards=2).source_id


def facts(desk: Desk, source_id: UUID) -> list[tuple[object, ...]]:
    return [(s.id, s.number, s.generation, s.seed, s.attempts) for s in desk.shards(source_id)]


def test_added_pictures_form_new_shards_and_leave_the_old_alone(desk: Desk, source_id: UUID) -> None:
    shards, samples = facts(desk, source_id), {(s.digest, s.shard_id) for s in desk.samples(source_id)}

    admission = desk.add(source_id, desk.pictures(range(10, 40)), shards=3)

    assert facts(desk, source_id)[: len(shards)] == shards
    assert samples < {(s.digest, s.shard_id) for s in desk.samples(source_id)}
    added = desk.shards(source_id)[len(shards) :]
    assert [shard.id for shard in added] == list(admission.shards)
    assert [shard.number for shard in added] == list(range(len(shards), len(shards) + len(added)))
    assert {s.shard_id for s in desk.samples(source_id) if (s.digest, s.shard_id) not in samples} == set(
        admission.shards
    )
    assert desk.log()[-1].action == "samples.added"
    desk.assert_tidy()


def test_pictures_that_are_there_are_left_out_and_named(desk: Desk, source_id: UUID) -> None:
    admission = desk.add(source_id, desk.pictures(range(3, 7)))

    assert admission.samples == 2
    assert [(r.name, r.reason) for r in admission.skipped] == [
        ("cat/3.png", "is in the source already"),
        ("cat/4.png", "is in the source already"),
    ]
    assert len(desk.samples(source_id)) == 7
    desk.assert_tidy()


@embedded
def test_an_upload_without_anything_new_is_refused(desk: Desk, source_id: UUID) -> None:
    before = desk.rows()

    for unreadable in ("refuse", "skip"):
        with pytest.raises(DatasetRejected, match=r"no picture is new to the source \('cat/1\.png' .* and 1 more\)"):
            desk.add(source_id, desk.pictures([1, 2]), unreadable=unreadable)

    assert desk.rows() == before
    desk.assert_tidy()


@embedded
def test_a_picture_that_comes_again_under_another_label_is_a_contradiction(desk: Desk, source_id: UUID) -> None:
    path = desk.shop.zip({"dog/1.png": desk.shop.picture(1), "dog/9.png": desk.shop.picture(9)})

    with pytest.raises(DatasetRejected, match=r"'dog/1\.png' labelled 'dog', but in the source already"):
        desk.add(source_id, path)
    admission = desk.add(source_id, path, unreadable="skip")

    assert (admission.samples, len(admission.skipped)) == (1, 1)
    assert {s.label for s in desk.samples(source_id) if s.digest == digest_of(desk, 1)} == {"cat"}


@embedded
def test_another_source_may_have_the_same_pictures(desk: Desk, source_id: UUID) -> None:
    assert desk.upload(desk.pictures(range(5)), "other birds").samples == 5
    desk.assert_tidy()


@embedded
def test_a_forgotten_picture_refuses_the_whole(desk: Desk, source_id: UUID) -> None:
    desk.forget(source_id, digest_of(desk, 20), new_id())
    before = desk.rows()

    with pytest.raises(DatasetRejected, match=r"1 of 2 pictures .*'cat/20\.png' was forgotten on 20\d\d-.*--readmit"):
        desk.add(source_id, desk.pictures([20, 21]))

    assert desk.rows() == before
    desk.assert_tidy()


def test_a_forgotten_picture_can_be_skipped(desk: Desk, source_id: UUID) -> None:
    desk.forget(source_id, digest_of(desk, 20), new_id())

    admission = desk.add(source_id, desk.pictures([20, 21]), unreadable="skip")

    assert admission.samples == 1
    (refusal,) = admission.skipped
    assert refusal.name == "cat/20.png"
    assert f"was forgotten on {datetime.now(UTC):%Y-}" in refusal.reason
    assert digest_of(desk, 20) not in {s.digest for s in desk.samples(source_id)}


def test_a_forgotten_picture_comes_back_when_its_owner_says_so(desk: Desk, source_id: UUID) -> None:
    for number in (20, 30):
        desk.forget(source_id, digest_of(desk, number), new_id())

    admission = desk.add(source_id, desk.pictures([20, 21]), readmit=True)

    assert admission.samples == 2
    assert desk.rows()["tombstones"] == 1  # the other one's
    assert desk.log()[-1].subject["readmitted"] == 1


@embedded
def test_bringing_back_what_was_forgotten_takes_the_right_to_forget(desk: Desk, source_id: UUID) -> None:
    desk.forget(source_id, digest_of(desk, 20), new_id())
    path = desk.pictures([20])

    with pytest.raises(Forbidden, match="forget"):
        add_samples(desk.registry, grant(desk, source_id, "manage"), source_id, path, readmit=True)

    both = grant(desk, source_id, "manage", "forget")
    assert add_samples(desk.registry, both, source_id, path, readmit=True).samples == 1


@embedded
def test_adding_takes_the_right_to_manage(desk: Desk, source_id: UUID) -> None:
    path = desk.pictures([20])

    for rights in (("use",), ("forget",)):
        with pytest.raises(Forbidden):
            add_samples(desk.registry, grant(desk, source_id, *rights), source_id, path)
    with pytest.raises(NotFound):
        add_samples(desk.registry, desk.user("owner"), source_id, path)

    assert add_samples(desk.registry, grant(desk, source_id, "manage"), source_id, path).samples == 1


@embedded
def test_nothing_is_added_to_a_source_that_is_being_forgotten(desk: Desk, source_id: UUID) -> None:
    with desk.registry.database.write_transaction() as session:
        session.execute(update(Source).values(name=None, erasure_id=new_id()))

    with pytest.raises(NotFound):
        desk.add(source_id, desk.pictures([20]))
