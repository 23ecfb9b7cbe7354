"""A new source: what comes in is all there, whose it is, and what is refused before or while it is read."""

import hashlib
from typing import Any
from unicodedata import normalize
from uuid import UUID

import pytest
from sqlalchemy import select

from registry.access.caller import OPERATOR, Caller
from registry.catalog.shard_assignment import assign_shard
from registry.datasets.dataset import SkippedFile
from registry.datasets.limits import DatasetLimits
from registry.db.models.catalog import Source
from registry.db.models.write_claims import WriteClaim
from registry.errors import Conflict, DatasetRejected, DomainError, Forbidden, Invalid, LimitExceeded, NotFound
from registry.ids import new_id
from registry.ingest.upload import upload_source
from registry.registry import Registry
from registry.storage.keys import sample_key
from tests.registry.factories import make_user
from tests.registry.ingest.fixtures import AtPoint, Desk

NAMES = ["Vögel am Fluß", "鳥", "طيور", "пти́цы", "पक्षी", "🦉 & friends", "a" * 200]
embedded = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)  # what no home has a say in


def source_of(desk: Desk, source_id: UUID) -> Source:
    with desk.registry.database.read_transaction() as session:
        return session.get_one(Source, source_id)


def test_every_picture_has_its_row_and_its_object(desk: Desk) -> None:
    bodies = {desk.shop.picture(number): "cat" if number % 2 else "dog" for number in range(20)}
    path = desk.shop.zip({f"{label}/{n}.png": body for n, (body, label) in enumerate(bodies.items())})

    admission = desk.upload(path, shards=3)

    assert (admission.samples, admission.size_bytes) == (20, sum(map(len, bodies)))
    assert admission.skipped == ()
    rows = {row.digest: row for row in desk.samples(admission.source_id)}
    for body, label in bodies.items():
        row = rows.pop(hashlib.sha256(body).hexdigest())
        key = sample_key(row.source_id, row.shard_id, row.digest)
        assert (row.label, row.size_bytes) == (label, len(body))
        assert desk.registry.objects.read(key, row.digest) == body
    assert rows == {}
    desk.assert_tidy()


@embedded
def test_a_shard_holds_what_the_keyed_hash_of_each_picture_says(desk: Desk) -> None:
    admission = desk.upload(desk.pictures(range(40)), shards=4)

    key = source_of(desk, admission.source_id).key
    shards = desk.shards(admission.source_id)
    assert [shard.id for shard in shards] == list(admission.shards)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert len({shard.seed for shard in shards}) == len(shards)
    falls_into: dict[int, set[UUID]] = {}
    for sample in desk.samples(admission.source_id):
        falls_into.setdefault(assign_shard(sample.digest, key, 4), set()).add(sample.shard_id)
    assert all(len(into) == 1 for into in falls_into.values())
    assert [into.pop() for _, into in sorted(falls_into.items())] == list(admission.shards)


@embedded
def test_a_shard_without_pictures_is_not_made(desk: Desk) -> None:
    admission = desk.upload(desk.pictures(range(4)), shards=4)

    filled = {sample.shard_id for sample in desk.samples(admission.source_id)}
    assert {shard.id for shard in desk.shards(admission.source_id)} == filled == set(admission.shards)


@embedded
def test_the_source_belongs_to_who_uploads_it(desk: Desk) -> None:
    assert source_of(desk, desk.upload(desk.pictures([1])).source_id).owner_id == desk.owner.user_id


@embedded
def test_an_admin_may_upload_for_another_and_an_owner_may_not(desk: Desk) -> None:
    other = desk.user()
    path = desk.pictures([1])

    with pytest.raises(Forbidden):
        desk.upload(path, owner_id=other.user_id)
    admission = upload_source(desk.registry, desk.user("admin"), desk.task_id, "birds", path, owner_id=other.user_id)

    assert source_of(desk, admission.source_id).owner_id == other.user_id


@embedded
def test_the_operator_needs_no_user(desk: Desk) -> None:
    admission = upload_source(desk.registry, OPERATOR, desk.task_id, "birds", desk.pictures([1]))

    assert source_of(desk, admission.source_id).owner_id is None
    assert desk.log()[-1].actor is None


@embedded
def test_the_log_speaks_of_ids_and_counts_alone(desk: Desk) -> None:
    admission = desk.upload(desk.pictures([1, 2], label="secretlabel"), "secretname")

    line = desk.log()[-1]
    assert (line.action, line.actor) == ("source.uploaded", desk.owner.user_id)
    assert line.subject["source"] == str(admission.source_id)
    assert (line.subject["samples"], line.subject["shards"]) == (2, 1)
    assert "secret" not in str(line.subject)


def test_a_source_is_called_what_its_people_call_it(desk: Desk) -> None:
    path = desk.pictures([1])

    made = [desk.upload(path, name).source_id for name in NAMES]

    assert [source_of(desk, source_id).name for source_id in made] == [normalize("NFC", name) for name in NAMES]


@embedded
@pytest.mark.parametrize(
    "name", ["", " birds", "bi\nrds", "a" * 201, "\u202esdrib", "01a1e350-5b27-702b-8104-63d38338c001"]
)
def test_a_name_that_would_mislead_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(Invalid):
        desk.upload(desk.pictures([1]), name)

    assert desk.rows()["sources"] == 0


@embedded
def test_a_name_that_is_taken_is_told_before_anything_is_read(desk: Desk) -> None:
    desk.upload(desk.pictures([1]))

    with pytest.raises(Conflict, match="'birds'"):
        desk.upload(desk.shop.folder / "there is no such file")

    desk.assert_tidy()


def refused(desk: Desk, error: type[DomainError], **wrong: Any) -> str:  # Any: of `upload_source`
    """The message; nothing may have come of it."""
    before = desk.rows()
    good: dict[str, Any] = {"caller": desk.owner, "task_id": desk.task_id, "name": "birds"}
    with pytest.raises(error) as caught:
        upload_source(desk.registry, **{**good, "path": desk.pictures([1, 2]), **wrong})
    assert desk.rows() == before
    desk.assert_tidy()
    return str(caught.value)


@embedded
def test_a_predictor_makes_no_source(desk: Desk) -> None:
    assert "role 'owner'" in refused(desk, Forbidden, caller=desk.user("predictor"))


@embedded
def test_an_unknown_task_is_not_found(desk: Desk) -> None:
    refused(desk, NotFound, task_id=new_id())


@embedded
def test_a_caller_whose_user_is_gone_owns_nothing(desk: Desk) -> None:
    refused(desk, NotFound, caller=Caller(new_id(), "owner"))


@embedded
def test_a_group_owns_nothing(desk: Desk) -> None:
    with desk.registry.database.write_transaction() as session:
        group = make_user(session, is_group=True)

    assert "group" in refused(desk, Invalid, caller=OPERATOR, owner_id=group.id)


@embedded
@pytest.mark.parametrize("shards", [0, -1, 3, 1001])
def test_more_shards_than_pictures_or_none_are_refused(desk: Desk, shards: int) -> None:
    refused(desk, Invalid, shards=shards)


@embedded
def test_a_file_over_a_limit_is_refused(desk: Desk) -> None:
    refused(desk, LimitExceeded, limits=DatasetLimits(max_files=1))


@embedded
def test_labels_that_the_task_does_not_have_are_named(registry: Registry, desk: Desk) -> None:
    strict = Desk(registry, desk.shop, labels=["cat", "dog"])

    message = refused(strict, DatasetRejected, path=strict.pictures([1], label="wolf"))
    admission = strict.upload(strict.pictures([2], label="dog"))

    assert "'wolf'" in message
    assert admission.samples == 1


@embedded
def test_a_broken_picture_refuses_the_whole_unless_it_may_be_skipped(desk: Desk) -> None:
    path = desk.shop.zip({"cat/1.png": desk.shop.picture(1), "cat/2.png": b"no picture"})

    assert "'cat/2.png'" in refused(desk, DatasetRejected, path=path)
    admission = desk.upload(path, unreadable="skip")

    assert admission.samples == 1
    assert [refusal.name for refusal in admission.skipped] == ["cat/2.png"]


@embedded
def test_a_copy_within_the_upload_is_kept_once_and_told(desk: Desk) -> None:
    admission = desk.upload(desk.shop.zip({"cat/1.png": desk.shop.picture(1), "cat/2.png": desk.shop.picture(1)}))

    assert admission.samples == 1
    assert admission.skipped == (SkippedFile("cat/2.png", "same picture as 'cat/1.png'"),)


@embedded
def test_progress_is_told_up_to_the_last_picture(desk: Desk) -> None:
    told: list[tuple[int, int]] = []

    desk.upload(desk.pictures(range(30)), report=lambda done, total: told.append((done, total)))

    assert told == [(number, 30) for number in range(1, 31)]


@embedded
def test_a_folder_is_read_in_place_and_left_as_it_is(desk: Desk) -> None:
    folder = desk.shop.tree({f"cat/{number}.png": desk.shop.picture(number) for number in range(5)})
    before = sorted(folder.rglob("*"))

    assert desk.upload(folder).samples == 5

    assert sorted(folder.rglob("*")) == before
    desk.assert_tidy()


@embedded
def test_a_subfolder_can_be_picked(desk: Desk) -> None:
    path = desk.shop.zip({"train/cat/1.png": desk.shop.picture(1), "test/cat/2.png": desk.shop.picture(2)})

    admission = desk.upload(path, within="train")

    assert [sample.name for sample in desk.samples(admission.source_id)] == ["train/cat/1.png"]


@embedded
@pytest.mark.parametrize("is_good", [True, False])
def test_an_upload_removes_the_scratch_folder_that_holds_its_body(desk: Desk, is_good: bool) -> None:
    with desk.registry.scratch.job_folder(new_id()) as scratch:
        body = scratch / "archive"
        body.write_bytes(desk.pictures([1]).read_bytes() if is_good else b"no dataset")

        if is_good:
            desk.upload(body, scratch=scratch)
        else:
            with pytest.raises(DatasetRejected):
                desk.upload(body, scratch=scratch)

        assert not scratch.exists()

    desk.assert_tidy()


@embedded
def test_forgetting_a_source_waits_for_the_body_of_an_upload(desk: Desk, at_point: AtPoint) -> None:
    source_id = desk.upload(desk.pictures([1])).source_id
    claims: list[UUID] = []

    def list_claims() -> None:
        with desk.registry.database.read_transaction() as session:
            claims.extend(session.scalars(select(WriteClaim.id).where(WriteClaim.source_id == source_id)))

    at_point("upload: committed", list_claims)
    with desk.registry.scratch.job_folder(new_id()) as scratch:
        body = scratch / "archive"
        body.write_bytes(desk.pictures([2]).read_bytes())
        desk.add(source_id, body, scratch=scratch)

    assert claims == [UUID(scratch.name)]
