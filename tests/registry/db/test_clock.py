"""Times are the same on both databases, and by the database's clock."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import literal, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import StatementError

from registry.db.clock import UtcDateTime, now, seconds_from_now
from registry.db.database import Database

moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(UTC))


def test_the_databases_now_is_now(database: Database) -> None:
    before = datetime.now(UTC)
    with database.autocommit_connection() as connection:
        here, later = connection.execute(select(now(), seconds_from_now(90.5))).one()
    slack = timedelta(seconds=2)

    assert before - slack < here < datetime.now(UTC) + slack
    assert timedelta(seconds=90.4) < later - here < timedelta(seconds=90.6)


def test_a_time_is_read_as_it_was_written_and_in_utc(database: Database) -> None:
    there = datetime(2026, 7, 1, 12, 30, 15, 123_000, timezone(timedelta(hours=5, minutes=30)))
    with database.autocommit_connection() as connection:
        back = connection.execute(select(literal(there, UtcDateTime()))).scalar_one()

    assert back == there
    assert back.tzinfo == UTC


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    with database.autocommit_connection() as connection, pytest.raises(StatementError, match="time zone"):
        connection.execute(select(literal(datetime(2026, 1, 1), UtcDateTime())))


@given(moments, moments)
def test_texts_of_sqlite_sort_as_the_times_do(one: datetime, other: datetime) -> None:
    stored = [UtcDateTime().process_bind_param(time, sqlite.dialect()) for time in (one, other)]
    milliseconds = [time.replace(microsecond=time.microsecond // 1000 * 1000) for time in (one, other)]

    assert (stored[0] < stored[1]) == (milliseconds[0] < milliseconds[1])  # type: ignore[operator]  # texts, there


def test_comparisons_with_now_hold_on_both_databases(database: Database) -> None:
    past, future = datetime.now(UTC) - timedelta(minutes=1), datetime.now(UTC) + timedelta(minutes=1)
    with database.autocommit_connection() as connection:
        compared = connection.execute(
            select(
                literal(past, UtcDateTime()) < now(),
                literal(future, UtcDateTime()) < now(),
                now() < seconds_from_now(1),
            )
        ).one()

    assert tuple(map(bool, compared)) == (True, False, True)
