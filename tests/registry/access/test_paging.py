"""Pagination: a row that exists throughout is returned once, and an invalid cursor is refused."""

import random
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from registry.db.database import Database
from registry.db.models.catalog import Sample
from registry.db.models.users import Membership, User
from registry.db.paging import MAX_LIMIT, Page, batched, read_page
from registry.errors import Invalid
from registry.ids import new_id
from tests.registry.access.fixtures import MADE
from tests.registry.factories import make_shard, make_source, make_task, make_user


def add_users(session: Session, count: int) -> set[str]:
    names = {f"user {new_id()}" for _ in range(count)}
    columns = {"role": "predictor", "is_group": False, "created_at": MADE}
    session.execute(insert(User), [{"id": new_id(), "name": name, **columns} for name in sorted(names)])
    return names


def users_after(database: Database, after: str | None, limit: int) -> Page[User]:
    with database.read_transaction() as session:
        return read_page(session, select(User), User.id, after=after, limit=limit)


def test_ten_thousand_rows_are_each_seen_once_while_others_come_and_go(database: Database) -> None:
    chance = random.Random(7)
    with database.write_transaction() as session:
        there_all_along = add_users(session, 10_000)
    ever = set(there_all_along)
    rows: list[str] = []
    after: str | None = None
    while True:
        page = users_after(database, after, chance.choice([700, 999, MAX_LIMIT]))
        rows += [user.name for user in page.items]
        after = page.next
        if after is None:
            break
        with database.write_transaction() as session:
            gone = set(chance.sample(sorted(there_all_along), 50))
            session.execute(delete(User).where(User.name.in_(gone)))
            there_all_along -= gone
            ever |= add_users(session, 20)

    assert len(rows) == len(set(rows))
    assert there_all_along <= set(rows) <= ever


def test_a_list_that_ends_with_a_page_has_no_empty_page_after_it(database: Database) -> None:
    with database.write_transaction() as session:
        add_users(session, 6)

    first = users_after(database, None, 3)
    second = users_after(database, first.next, 3)

    assert [len(first.items), len(second.items)] == [3, 3]
    assert first.next is not None
    assert second.next is None


def test_the_end_of_a_page_may_be_removed_before_the_next_is_read(database: Database) -> None:
    with database.write_transaction() as session:
        add_users(session, 4)
    first = users_after(database, None, 2)
    with database.write_transaction() as session:
        session.execute(delete(User).where(User.id == first.items[-1].id))

    assert len(users_after(database, first.next, 10).items) == 2


def test_rows_without_ids_are_paged_by_their_unique_key(database: Database) -> None:
    with database.write_transaction() as session:
        shard = make_shard(session, make_source(session, make_task(session)), samples=7)
    of_source = select(Sample).where(Sample.source_id == shard.source_id)
    digests: list[str] = []
    after: str | None = None
    with database.read_transaction() as session:
        for _ in range(3):
            page = read_page(session, of_source, Sample.digest, after=after, limit=3)
            digests += page.map(lambda sample: sample.digest).items
            after = page.next

    assert after is None
    assert len(digests) == 7
    assert digests == sorted(set(digests))


def test_two_keys_together_make_a_cursor(database: Database) -> None:
    with database.write_transaction() as session:
        groups = [make_user(session, is_group=True) for _ in range(3)]
        members = [make_user(session) for _ in range(3)]
        session.add_all(Membership(group_id=g.id, member_id=m.id) for g in groups for m in members)
    rows: list[tuple[object, object]] = []
    after: str | None = None
    with database.read_transaction() as session:
        for _ in range(5):
            keys = (Membership.group_id, Membership.member_id)
            page = read_page(session, select(Membership), *keys, after=after, limit=2)
            rows += [(row.group_id, row.member_id) for row in page.items]
            after = page.next

    assert after is None
    assert rows == [(g.id, m.id) for g in groups for m in members]


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1])
def test_a_page_has_a_size_within_bounds(database: Database, limit: int) -> None:
    with pytest.raises(Invalid, match="1 to 1000"):
        users_after(database, None, limit)


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


GARBAGE = [
    *("", "x", "nonsense", "ünïcödé", "\0", "x" * 10_000, "[" * 900),
    *map(encoded, ("{}", "[]", '["not an id"]', "[1]", '["a","b"]', "[" * 700, f'[ "{new_id()}"]')),
    encoded(f'["{new_id()}"]') + "!",
]


@pytest.mark.parametrize("cursor", GARBAGE, ids=range(len(GARBAGE)))
def test_a_cursor_that_was_never_given_out_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid, match="begin again without one"):
        read_page(Session(), select(User), User.id, after=cursor, limit=10)


@given(st.text())
def test_no_text_as_a_cursor_reaches_sql(text: str) -> None:
    with pytest.raises(Invalid):
        read_page(Session(), select(User), User.id, after=text, limit=10)


def test_a_cursor_of_texts_with_a_nul_is_refused() -> None:
    with pytest.raises(Invalid):
        read_page(Session(), select(Sample), Sample.digest, after=encoded('["a\\u0000"]'), limit=10)


@given(items=st.lists(st.integers()), size=st.integers(min_value=1, max_value=7))
def test_batches_keep_all_items_in_order(items: list[int], size: int) -> None:
    parts = list(batched(items, size))

    assert [item for part in parts for item in part] == items
    assert all(len(part) == size for part in parts[:-1])
    assert all(1 <= len(part) <= size for part in parts)
