"""Quotas: what counts, who is refused, and that concurrent uploads cannot exceed one together."""

from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import select

from alacarte.api.limits import MAX_QUOTA_BYTES
from registry.access.caller import OPERATOR
from registry.access.quotas import QuotaExceeded, QuotaUsage, read_quota, set_quota
from registry.access.users import remove_user
from registry.catalog.sources import create_source
from registry.db.models.log import LogEntry
from registry.erasure.request import forget_sample, forget_source
from registry.errors import Forbidden, Invalid, NotFound
from registry.ids import new_id
from registry.ingest.upload import IngestResult
from registry.training.publish import PublishedMetadata, publish_remote
from tests.registry.ingest.fixtures import AtFailpoint, Uploader
from tests.registry.ingest.test_races import run_together

METADATA = PublishedMetadata(identity="1d" * 32, labels=("cat",), samples=1, extra={})


def set_owner_quota(uploader: Uploader, quota_bytes: int | None) -> None:
    with uploader.registry.database.write_transaction() as session:
        set_quota(session, OPERATOR, uploader.owner_id, quota_bytes)


def quota(uploader: Uploader) -> QuotaUsage:
    with uploader.registry.database.read_transaction() as session:
        return read_quota(session, uploader.owner, uploader.owner_id, uploader.registry.default_quota_bytes)


def size_of(uploader: Uploader, *numbers: int) -> int:
    return sum(len(uploader.builder.picture(number)) for number in numbers)


def test_a_quota_can_be_used_up_exactly_and_no_further(uploader: Uploader) -> None:
    quota_bytes = size_of(uploader, 0, 1, 2)
    set_owner_quota(uploader, quota_bytes)

    source = uploader.upload(uploader.pictures(range(3))).source_id

    assert quota(uploader) == QuotaUsage(quota_bytes, quota_bytes, is_default=False)
    with pytest.raises(
        QuotaExceeded, match=f"uses {quota_bytes} of {quota_bytes} bytes: forget a source .* larger quota"
    ):
        uploader.add(source, uploader.pictures([3]))
    with pytest.raises(QuotaExceeded):
        uploader.upload(uploader.pictures([4]), "others")
    assert quota(uploader).used_bytes == quota_bytes
    uploader.assert_tidy()


def test_an_upload_over_the_quota_is_refused_before_anything_is_written(
    uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_owner_quota(uploader, size_of(uploader, 0, 1, 2) - 1)
    monkeypatch.setattr("registry.ingest.upload.store_samples", lambda *_, **__: pytest.fail("objects were written"))

    with pytest.raises(QuotaExceeded, match=f"and this needs {size_of(uploader, 0, 1, 2)} more"):
        uploader.upload(uploader.pictures(range(3)))

    assert uploader.rows()["sources"] == 0
    uploader.assert_tidy()


def test_only_new_pictures_count_towards_the_quota(uploader: Uploader) -> None:
    source = uploader.upload(uploader.pictures(range(3))).source_id
    set_owner_quota(uploader, size_of(uploader, 0, 1, 2, 3))

    assert uploader.add(source, uploader.pictures(range(4))).samples == 1


def test_forgetting_frees_the_quota(uploader: Uploader) -> None:
    set_owner_quota(uploader, size_of(uploader, 0, 1))
    source = uploader.upload(uploader.pictures([0, 1])).source_id

    forget_sample(uploader.registry, uploader.owner, source, uploader.samples(source)[0].digest)
    assert quota(uploader).used_bytes < size_of(uploader, 0, 1)
    uploader.add(source, uploader.pictures([5]))
    forget_source(uploader.registry, uploader.owner, source)
    assert quota(uploader).used_bytes == 0
    uploader.upload(uploader.pictures([0, 1]), "again")


def test_of_two_uploads_at_once_that_fit_alone_one_is_refused(uploader: Uploader) -> None:
    set_owner_quota(uploader, size_of(uploader, 0, 1, 2, 3) - 1)
    paths = [uploader.pictures([0, 1]), uploader.pictures([2, 3])]

    outcomes = run_together(
        *(lambda path=path, n=n: uploader.upload(path, f"source {n}") for n, path in enumerate(paths))
    )

    assert [type(outcome) for outcome in outcomes if not isinstance(outcome, IngestResult)] == [QuotaExceeded]
    assert quota(uploader).used_bytes == size_of(uploader, 0, 1)
    assert uploader.rows()["sources"] == 1
    uploader.assert_tidy()


def test_of_many_uploads_at_once_into_several_sources_as_many_are_taken_in_as_fit(uploader: Uploader) -> None:
    sources = [uploader.upload(uploader.pictures([100 + n]), f"source {n}").source_id for n in range(2)]
    used = quota(uploader).used_bytes
    set_owner_quota(uploader, used + size_of(uploader, 0, 1, 2))

    paths = [uploader.pictures([n]) for n in range(6)]
    outcomes = run_together(
        *(lambda path=path, n=n: uploader.add(sources[n % 2], path) for n, path in enumerate(paths))
    )

    assert sum(isinstance(outcome, IngestResult) for outcome in outcomes) == 3
    assert quota(uploader).used_bytes == used + size_of(uploader, 0, 1, 2)
    uploader.assert_tidy()


def test_a_quota_that_shrinks_meanwhile_counts(uploader: Uploader, at_failpoint: AtFailpoint) -> None:
    at_failpoint(lambda: set_owner_quota(uploader, 1))

    with pytest.raises(QuotaExceeded):
        uploader.upload(uploader.pictures([0, 1]))

    uploader.assert_tidy()


def test_the_default_quota_applies_to_users_without_their_own(uploader: Uploader) -> None:
    uploader.registry = replace(uploader.registry, default_quota_bytes=1)
    with pytest.raises(QuotaExceeded, match="of 1 bytes"):
        uploader.upload(uploader.pictures([0]))
    assert quota(uploader) == QuotaUsage(0, 1, is_default=True)

    set_owner_quota(uploader, size_of(uploader, 0))
    uploader.upload(uploader.pictures([0]))
    set_owner_quota(uploader, None)
    assert quota(uploader).is_default
    uploader.registry = replace(uploader.registry, default_quota_bytes=None)
    uploader.upload(uploader.pictures(range(1, 9)), "more")


def test_a_source_without_an_owner_has_no_quota(uploader: Uploader) -> None:
    source = uploader.upload(uploader.pictures([0])).source_id
    uploader.registry = replace(uploader.registry, default_quota_bytes=1)
    with uploader.registry.database.write_transaction() as session:
        remove_user(session, OPERATOR, uploader.owner_id)
    uploader.owner = OPERATOR

    assert uploader.add(source, uploader.pictures([1])).samples == 1


def test_remote_prompts_count_towards_the_quota(uploader: Uploader) -> None:
    set_owner_quota(uploader, 10)
    with uploader.registry.database.write_transaction() as session:
        source: UUID = create_source(session, uploader.owner, uploader.task_id, "remote").id

    published = publish_remote(uploader.registry, uploader.owner, source, b"12345678", METADATA)

    assert quota(uploader).used_bytes == 8
    with pytest.raises(QuotaExceeded, match="needs 3 more"):
        publish_remote(uploader.registry, uploader.owner, source, b"abc", METADATA)
    set_owner_quota(uploader, 8)
    assert (
        publish_remote(uploader.registry, uploader.owner, source, b"12345678", METADATA).id == published.id
    )  # sent twice, published once


def test_admins_set_quotas_and_users_see_their_own(uploader: Uploader) -> None:
    stranger = uploader.user()
    with uploader.registry.database.write_transaction() as session:
        with pytest.raises(Forbidden):
            set_quota(session, uploader.owner, uploader.owner_id, MAX_QUOTA_BYTES)
        with pytest.raises(NotFound):
            read_quota(session, stranger, uploader.owner_id, None)
        with pytest.raises(NotFound):
            set_quota(session, OPERATOR, new_id(), 1)
        for wrong in (-1, MAX_QUOTA_BYTES + 1):
            with pytest.raises(Invalid):
                set_quota(session, OPERATOR, uploader.owner_id, wrong)
        set_quota(session, OPERATOR, uploader.owner_id, MAX_QUOTA_BYTES)
        set_quota(session, OPERATOR, uploader.owner_id, MAX_QUOTA_BYTES)
        lines = session.scalars(select(LogEntry)).all()

    assert [(line.action, line.subject) for line in lines] == [
        ("user.quota-set", {"user": str(uploader.owner_id), "bytes": MAX_QUOTA_BYTES})
    ]
