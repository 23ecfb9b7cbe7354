"""How much an owner may store: what counts, who is refused, and that no two uploads slip through together."""

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
from tests.registry.ingest.fixtures import Desk
from tests.registry.ingest.test_races import meanwhile, together

FACTS = PublishedMetadata(identity="1d" * 32, labels=("cat",), samples=1, extra={})


def limited(desk: Desk, quota_bytes: int | None) -> Desk:
    """The desk, whose owner may store so much."""
    assert desk.owner.user_id is not None
    with desk.registry.database.write_transaction() as session:
        set_quota(session, OPERATOR, desk.owner.user_id, quota_bytes)
    return desk


def quota(desk: Desk) -> QuotaUsage:
    assert desk.owner.user_id is not None
    with desk.registry.database.read_transaction() as session:
        return read_quota(session, desk.owner, desk.owner.user_id, desk.registry.default_quota_bytes)


def size_of(desk: Desk, *numbers: int) -> int:
    return sum(len(desk.shop.picture(number)) for number in numbers)


def test_what_fits_exactly_is_taken_in_and_then_not_a_byte_more(desk: Desk) -> None:
    room = size_of(desk, 0, 1, 2)
    limited(desk, room)

    source = desk.upload(desk.pictures(range(3))).source_id

    assert quota(desk) == QuotaUsage(room, room, is_default=False)
    with pytest.raises(QuotaExceeded, match=f"uses {room} of {room} bytes: forget a source .* larger quota"):
        desk.add(source, desk.pictures([3]))
    with pytest.raises(QuotaExceeded):
        desk.upload(desk.pictures([4]), "others")
    assert quota(desk).used_bytes == room
    desk.assert_tidy()


def test_too_much_is_refused_before_any_of_it_is_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(desk, size_of(desk, 0, 1, 2) - 1)
    monkeypatch.setattr("registry.ingest.upload.store_samples", lambda *_, **__: pytest.fail("objects were written"))

    with pytest.raises(QuotaExceeded, match=f"and this needs {size_of(desk, 0, 1, 2)} more"):
        desk.upload(desk.pictures(range(3)))

    assert desk.rows()["sources"] == 0
    desk.assert_tidy()


def test_only_what_is_new_counts(desk: Desk) -> None:
    source = desk.upload(desk.pictures(range(3))).source_id
    limited(desk, size_of(desk, 0, 1, 2, 3))

    assert desk.add(source, desk.pictures(range(4))).samples == 1


def test_forgetting_makes_room(desk: Desk) -> None:
    limited(desk, size_of(desk, 0, 1))
    source = desk.upload(desk.pictures([0, 1])).source_id

    forget_sample(desk.registry, desk.owner, source, desk.samples(source)[0].digest)
    assert quota(desk).used_bytes < size_of(desk, 0, 1)
    desk.add(source, desk.pictures([5]))
    forget_source(desk.registry, desk.owner, source)
    assert quota(desk).used_bytes == 0
    desk.upload(desk.pictures([0, 1]), "again")


def test_of_two_uploads_at_once_that_fit_alone_one_is_refused(desk: Desk) -> None:
    limited(desk, size_of(desk, 0, 1, 2, 3) - 1)
    paths = [desk.pictures([0, 1]), desk.pictures([2, 3])]

    outcomes = together(*(lambda path=path, n=n: desk.upload(path, f"source {n}") for n, path in enumerate(paths)))

    assert [type(outcome) for outcome in outcomes if not isinstance(outcome, IngestResult)] == [QuotaExceeded]
    assert quota(desk).used_bytes == size_of(desk, 0, 1)
    assert desk.rows()["sources"] == 1
    desk.assert_tidy()


def test_of_many_uploads_at_once_into_several_sources_as_many_are_taken_in_as_fit(desk: Desk) -> None:
    sources = [desk.upload(desk.pictures([100 + n]), f"source {n}").source_id for n in range(2)]
    used = quota(desk).used_bytes
    limited(desk, used + size_of(desk, 0, 1, 2))

    paths = [desk.pictures([n]) for n in range(6)]
    outcomes = together(*(lambda path=path, n=n: desk.add(sources[n % 2], path) for n, path in enumerate(paths)))

    assert sum(isinstance(outcome, IngestResult) for outcome in outcomes) == 3
    assert quota(desk).used_bytes == used + size_of(desk, 0, 1, 2)
    desk.assert_tidy()


def test_a_quota_that_shrinks_meanwhile_counts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def shrink() -> None:
        limited(desk, 1)

    meanwhile(monkeypatch, shrink)

    with pytest.raises(QuotaExceeded):
        desk.upload(desk.pictures([0, 1]))

    desk.assert_tidy()


def test_the_default_counts_for_whom_nothing_else_was_said(desk: Desk) -> None:
    desk.registry = replace(desk.registry, default_quota_bytes=1)
    with pytest.raises(QuotaExceeded, match="of 1 bytes"):
        desk.upload(desk.pictures([0]))
    assert quota(desk) == QuotaUsage(0, 1, is_default=True)

    limited(desk, size_of(desk, 0))
    desk.upload(desk.pictures([0]))
    limited(desk, None)
    assert quota(desk).is_default
    desk.registry = replace(desk.registry, default_quota_bytes=None)
    desk.upload(desk.pictures(range(1, 9)), "more")


def test_a_source_without_an_owner_has_no_quota(desk: Desk) -> None:
    source = desk.upload(desk.pictures([0])).source_id
    desk.registry = replace(desk.registry, default_quota_bytes=1)
    assert desk.owner.user_id is not None
    with desk.registry.database.write_transaction() as session:
        remove_user(session, OPERATOR, desk.owner.user_id)
    desk.owner = OPERATOR

    assert desk.add(source, desk.pictures([1])).samples == 1


def test_prompts_that_are_sent_count_too(desk: Desk) -> None:
    limited(desk, 10)
    with desk.registry.database.write_transaction() as session:
        source: UUID = create_source(session, desk.owner, desk.task_id, "remote").id

    kept = publish_remote(desk.registry, desk.owner, source, b"12345678", FACTS)

    assert quota(desk).used_bytes == 8
    with pytest.raises(QuotaExceeded, match="needs 3 more"):
        publish_remote(desk.registry, desk.owner, source, b"abc", FACTS)
    limited(desk, 8)
    assert publish_remote(desk.registry, desk.owner, source, b"12345678", FACTS).id == kept.id  # sent twice, kept once


def test_quotas_are_set_by_admins_and_seen_by_whom_they_are_of(desk: Desk) -> None:
    assert desk.owner.user_id is not None
    stranger = desk.user()
    with desk.registry.database.write_transaction() as session:
        with pytest.raises(Forbidden):
            set_quota(session, desk.owner, desk.owner.user_id, MAX_QUOTA_BYTES)
        with pytest.raises(NotFound):
            read_quota(session, stranger, desk.owner.user_id, None)
        with pytest.raises(NotFound):
            set_quota(session, OPERATOR, new_id(), 1)
        for wrong in (-1, MAX_QUOTA_BYTES + 1):
            with pytest.raises(Invalid):
                set_quota(session, OPERATOR, desk.owner.user_id, wrong)
        set_quota(session, OPERATOR, desk.owner.user_id, MAX_QUOTA_BYTES)
        set_quota(session, OPERATOR, desk.owner.user_id, MAX_QUOTA_BYTES)
        lines = session.scalars(select(LogEntry)).all()

    assert [(line.action, line.subject) for line in lines] == [
        ("user.quota-set", {"user": str(desk.owner.user_id), "bytes": MAX_QUOTA_BYTES})
    ]
