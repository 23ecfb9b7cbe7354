"""A new source: what is stored, who owns it, and what is refused before or while the archive is read."""

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
from tests.registry.database_fixtures import sqlite_only
from tests.registry.factories import make_user
from tests.registry.ingest.fixtures import AtFailpoint, Uploader

NAMES = ["Vögel am Fluß", "鳥", "طيور", "пти́цы", "पक्षी", "🦉 & friends", "a" * 200]


def read_source(uploader: Uploader, source_id: UUID) -> Source:
    with uploader.registry.database.read_transaction() as session:
        return session.get_one(Source, source_id)


def test_every_picture_has_its_row_and_its_object(uploader: Uploader) -> None:
    bodies = {uploader.builder.picture(number): "cat" if number % 2 else "dog" for number in range(20)}
    path = uploader.builder.zip({f"{label}/{n}.png": body for n, (body, label) in enumerate(bodies.items())})

    result = uploader.upload(path, shards=3)

    assert (result.samples, result.size_bytes) == (20, sum(map(len, bodies)))
    assert result.skipped_files == ()
    rows = {row.digest: row for row in uploader.samples(result.source_id)}
    for body, label in bodies.items():
        row = rows.pop(hashlib.sha256(body).hexdigest())
        key = sample_key(row.source_id, row.shard_id, row.digest)
        assert (row.label, row.size_bytes) == (label, len(body))
        assert uploader.registry.objects.read(key, row.digest) == body
    assert rows == {}
    uploader.assert_tidy()


@sqlite_only
def test_the_keyed_hash_of_a_picture_chooses_its_shard(uploader: Uploader) -> None:
    result = uploader.upload(uploader.pictures(range(40)), shards=4)

    key = read_source(uploader, result.source_id).key
    shards = uploader.shards(result.source_id)
    assert [shard.id for shard in shards] == list(result.shards)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert len({shard.seed for shard in shards}) == len(shards)
    falls_into: dict[int, set[UUID]] = {}
    for sample in uploader.samples(result.source_id):
        falls_into.setdefault(assign_shard(sample.digest, key, 4), set()).add(sample.shard_id)
    assert all(len(into) == 1 for into in falls_into.values())
    assert [into.pop() for _, into in sorted(falls_into.items())] == list(result.shards)


@sqlite_only
def test_a_shard_without_pictures_is_not_made(uploader: Uploader) -> None:
    result = uploader.upload(uploader.pictures(range(4)), shards=4)

    filled = {sample.shard_id for sample in uploader.samples(result.source_id)}
    assert {shard.id for shard in uploader.shards(result.source_id)} == filled == set(result.shards)


@sqlite_only
def test_the_uploader_owns_the_source_unless_an_admin_names_another_or_the_operator_uploads(uploader: Uploader) -> None:
    other, admin = uploader.user(), uploader.user("admin")
    path = uploader.pictures([1])

    with pytest.raises(Forbidden):
        uploader.upload(path, owner_id=other.user_id)
    sources = [
        uploader.upload(path, "mine"),
        upload_source(uploader.registry, admin, uploader.task_id, "theirs", path, owner_id=other.user_id),
        upload_source(uploader.registry, OPERATOR, uploader.task_id, "nobody's", path),
    ]

    owners = [read_source(uploader, source.source_id).owner_id for source in sources]
    assert owners == [uploader.owner_id, other.user_id, None]
    assert uploader.log()[-1].actor is None


@sqlite_only
def test_the_log_has_only_ids_and_counts(uploader: Uploader) -> None:
    result = uploader.upload(uploader.pictures([1, 2], label="secretlabel"), "secretname")

    line = uploader.log()[-1]
    assert (line.action, line.actor) == ("source.uploaded", uploader.owner.user_id)
    assert line.subject["source"] == str(result.source_id)
    assert (line.subject["samples"], line.subject["shards"]) == (2, 1)
    assert "secret" not in str(line.subject)


def test_a_source_can_have_a_name_in_any_script(uploader: Uploader) -> None:
    path = uploader.pictures([1])

    made = [uploader.upload(path, name).source_id for name in NAMES]

    assert [read_source(uploader, source_id).name for source_id in made] == [normalize("NFC", name) for name in NAMES]


@sqlite_only
@pytest.mark.parametrize(
    "name", ["", " birds", "bi\nrds", "a" * 201, "\u202esdrib", "01a1e350-5b27-702b-8104-63d38338c001"]
)
def test_a_name_that_would_mislead_is_refused(uploader: Uploader, name: str) -> None:
    with pytest.raises(Invalid):
        uploader.upload(uploader.pictures([1]), name)

    assert uploader.rows()["sources"] == 0


@sqlite_only
def test_a_taken_name_is_refused_before_the_archive_is_read(uploader: Uploader) -> None:
    uploader.upload(uploader.pictures([1]))

    with pytest.raises(Conflict, match="'birds'"):
        uploader.upload(uploader.builder.folder / "there is no such file")

    uploader.assert_tidy()


def assert_refused(uploader: Uploader, error: type[DomainError], **wrong: Any) -> str:  # Any: of `upload_source`
    """The message; nothing may have come of it."""
    before = uploader.rows()
    good: dict[str, Any] = {"caller": uploader.owner, "task_id": uploader.task_id, "name": "birds"}
    with pytest.raises(error) as caught:
        upload_source(uploader.registry, **{**good, "path": uploader.pictures([1, 2]), **wrong})
    assert uploader.rows() == before
    uploader.assert_tidy()
    return str(caught.value)


REFUSED: dict[str, tuple[dict[str, Any], type[DomainError], str]] = {
    "a predictor": ({"caller": "predictor"}, Forbidden, "role 'owner'"),
    "a caller whose user is gone": ({"caller": Caller(new_id(), "owner")}, NotFound, ""),
    "a group as owner": ({"caller": OPERATOR, "owner_id": "group"}, Invalid, "group"),
    "an unknown task": ({"task_id": new_id()}, NotFound, ""),
    "a file over a limit": ({"limits": DatasetLimits(max_files=1)}, LimitExceeded, ""),
    **{f"{shards} shards": ({"shards": shards}, Invalid, "") for shards in (0, -1, 3, 1001)},
}


@sqlite_only
@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_wrong_upload_is_refused(
    uploader: Uploader, wrong: dict[str, Any], error: type[DomainError], message: str
) -> None:
    made: dict[object, object] = {"predictor": uploader.user("predictor")}
    with uploader.registry.database.write_transaction() as session:
        made["group"] = make_user(session, is_group=True).id

    assert message in assert_refused(uploader, error, **{name: made.get(value, value) for name, value in wrong.items()})


@sqlite_only
def test_labels_that_the_task_does_not_have_are_named(registry: Registry, uploader: Uploader) -> None:
    strict = Uploader(registry, uploader.builder, labels=["cat", "dog"])

    assert "'wolf'" in assert_refused(strict, DatasetRejected, path=strict.pictures([1], label="wolf"))
    assert strict.upload(strict.pictures([2], label="dog")).samples == 1


@sqlite_only
def test_a_broken_picture_refuses_the_whole_unless_it_may_be_skipped(uploader: Uploader) -> None:
    path = uploader.builder.zip({"cat/1.png": uploader.builder.picture(1), "cat/2.png": b"no picture"})

    assert "'cat/2.png'" in assert_refused(uploader, DatasetRejected, path=path)
    result = uploader.upload(path, unreadable="skip")

    assert result.samples == 1
    assert [refusal.name for refusal in result.skipped_files] == ["cat/2.png"]


@sqlite_only
def test_a_duplicate_within_the_upload_is_stored_once_and_reported(uploader: Uploader) -> None:
    result = uploader.upload(
        uploader.builder.zip({"cat/1.png": uploader.builder.picture(1), "cat/2.png": uploader.builder.picture(1)})
    )

    assert result.samples == 1
    assert result.skipped_files == (SkippedFile("cat/2.png", "same picture as 'cat/1.png'"),)


@sqlite_only
def test_progress_is_reported_up_to_the_last_picture(uploader: Uploader) -> None:
    reported: list[tuple[int, int]] = []

    uploader.upload(uploader.pictures(range(30)), report=lambda done, total: reported.append((done, total)))

    assert reported == [(number, 30) for number in range(1, 31)]


@sqlite_only
def test_a_folder_is_read_in_place_and_left_as_it_is(uploader: Uploader) -> None:
    folder = uploader.builder.tree({f"cat/{number}.png": uploader.builder.picture(number) for number in range(5)})
    before = sorted(folder.rglob("*"))

    assert uploader.upload(folder).samples == 5

    assert sorted(folder.rglob("*")) == before
    uploader.assert_tidy()


@sqlite_only
def test_a_subfolder_can_be_selected(uploader: Uploader) -> None:
    path = uploader.builder.zip(
        {"train/cat/1.png": uploader.builder.picture(1), "test/cat/2.png": uploader.builder.picture(2)}
    )

    result = uploader.upload(path, within="train")

    assert [sample.name for sample in uploader.samples(result.source_id)] == ["train/cat/1.png"]


@sqlite_only
@pytest.mark.parametrize("is_good", [True, False])
def test_an_upload_removes_the_scratch_folder_that_holds_its_body(uploader: Uploader, is_good: bool) -> None:
    with uploader.registry.scratch.job_folder(new_id()) as scratch:
        body = scratch / "archive"
        body.write_bytes(uploader.pictures([1]).read_bytes() if is_good else b"no dataset")

        if is_good:
            uploader.upload(body, scratch=scratch)
        else:
            with pytest.raises(DatasetRejected):
                uploader.upload(body, scratch=scratch)

        assert not scratch.exists()

    uploader.assert_tidy()


@sqlite_only
def test_forgetting_a_source_waits_for_the_body_of_an_upload(uploader: Uploader, at_failpoint: AtFailpoint) -> None:
    source_id = uploader.upload(uploader.pictures([1])).source_id
    claims: list[UUID] = []

    def list_claims() -> None:
        with uploader.registry.database.read_transaction() as session:
            claims.extend(session.scalars(select(WriteClaim.id).where(WriteClaim.source_id == source_id)))

    at_failpoint(list_claims, "upload: committed")
    with uploader.registry.scratch.job_folder(new_id()) as scratch:
        body = scratch / "archive"
        body.write_bytes(uploader.pictures([2]).read_bytes())
        uploader.add(source_id, body, scratch=scratch)

    assert claims == [UUID(scratch.name)]
