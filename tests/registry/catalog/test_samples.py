"""Samples are listed and found only by callers who may manage a source or forget from it."""

import hashlib

import pytest
from sqlalchemy.orm import Session

from alacarte.api.literals import Right
from registry.access.caller import OPERATOR, Caller
from registry.catalog.samples import find_sample, list_samples
from registry.db.models.catalog import Shard, Source
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.ids import new_id
from tests.registry.database_fixtures import sqlite_only
from tests.registry.factories import make_grant, make_sample, make_shard, make_source, make_task, make_user


def make_full(session: Session) -> tuple[Source, Shard]:
    source = make_source(session, make_task(session))
    return source, make_shard(session, source)


def holder_of(session: Session, source: Source, right: Right) -> Caller:
    user = make_user(session)
    make_grant(session, user.id, source.id, right)
    return Caller(user.id, "predictor")


def test_samples_come_in_pages_by_digest_and_by_label_until_their_source_is_being_forgotten(session: Session) -> None:
    source, shard = make_full(session)
    made = sorted(make_sample(session, shard, bytes([number])).digest for number in range(7))
    make_sample(session, make_full(session)[1], b"of another source")

    first = list_samples(session, OPERATOR, source.id, limit=4)
    rest = list_samples(session, OPERATOR, source.id, after=first.next, limit=4)

    assert [sample.digest for sample in first.items + rest.items] == made
    assert rest.next is None
    dog = make_sample(session, shard, b"dog", label="dog")
    assert list_samples(session, OPERATOR, source.id, label="dog").items == (dog,)
    source.name, source.erasure_id = None, new_id()
    session.flush()
    with pytest.raises(NotFound):
        list_samples(session, OPERATOR, source.id)


@sqlite_only
def test_the_right_to_use_does_not_list_samples(session: Session) -> None:
    source, shard = make_full(session)
    sample = make_sample(session, shard, b"1")

    for right in ("manage", "forget"):
        caller = holder_of(session, source, right)
        assert list_samples(session, caller, source.id).items == (sample,)
        assert find_sample(session, caller, source.id, sample.digest) is sample
    with pytest.raises(Forbidden):
        list_samples(session, holder_of(session, source, "use"), source.id)
    with pytest.raises(Forbidden):
        find_sample(session, holder_of(session, source, "use"), source.id, sample.digest)
    with pytest.raises(NotFound):
        list_samples(session, Caller(new_id(), "owner"), source.id)


def test_a_sample_is_found_by_its_digest_or_by_a_name_that_is_its_own(session: Session) -> None:
    source, shard = make_full(session)
    first, second, third = (make_sample(session, shard, bytes([number])) for number in range(3))
    first.name, second.name, third.name = "cat/Größe.png", "cat/2.png", "cat/2.png"
    session.flush()

    for called in (first.digest, first.digest.upper(), "cat/Größe.png"):
        assert find_sample(session, OPERATOR, source.id, called) is first
    with pytest.raises(Conflict, match="by its digest"):
        find_sample(session, OPERATOR, source.id, "cat/2.png")
    with pytest.raises(NotFound):
        find_sample(session, OPERATOR, source.id, hashlib.sha256(b"another").hexdigest())


@sqlite_only
def test_a_file_named_like_the_digest_of_another_hides_nothing(session: Session) -> None:
    source, shard = make_full(session)
    sample = make_sample(session, shard, b"1")
    make_sample(session, shard, b"2").name = sample.digest
    session.flush()

    assert find_sample(session, OPERATOR, source.id, sample.digest) is sample


@pytest.mark.parametrize("text", ["", "\0", "a" * 513, "line\nbreak"])
@sqlite_only
def test_an_invalid_sample_name_is_refused(session: Session, text: str) -> None:
    source, _ = make_full(session)

    with pytest.raises(Invalid):
        find_sample(session, OPERATOR, source.id, text)
