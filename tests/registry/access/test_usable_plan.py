"""The usable prompts of a token are read by one statement that uses indexes, however large the tables are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from registry.access.tokens import parse_token
from registry.access.usable_prompts import read_usable_prompts, recheck_usable_prompts
from registry.db.database import Database
from tests.registry.access.fixtures import RELEASE, TASK, seed

SCANNED = re.compile(r"S(eq Scan on|CAN) (grants|tokens|prompts|sources|users|memberships|release_prompts)")


@contextmanager
def recorded() -> Iterator[list[tuple[str, Any]]]:
    """What is sent to any database meanwhile."""
    sent: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        sent.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def assert_indexed(database: Database, statement: str, parameters: Any) -> None:
    """Assert that the database reads no large table row by row for the statement."""
    explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    with database.autocommit_connection() as connection:
        plan = "\n".join(str(row) for row in connection.exec_driver_sql(f"{explain} {statement}", parameters))
    assert not SCANNED.search(plan), plan


def test_each_request_is_one_statement_that_uses_indexes_only(database: Database) -> None:
    granted = seed(database, sources=1500, users=1500, grants=5)
    token, sources = next(iter(granted.items()))
    shapes: tuple[dict[str, Any], ...] = (
        {},
        {"task": TASK},
        {"task": TASK, "release": RELEASE},
        {"task": TASK, "sources": sources[:3]},
        {"task": TASK, "release": RELEASE, "sources": sources[:1]},
    )
    for narrowed in shapes:
        with recorded() as sent:
            usable = read_usable_prompts(database, parse_token(token), **narrowed)
        with recorded() as sent_again:
            narrowed.pop("task", None)
            assert recheck_usable_prompts(database, parse_token(token), usable, **narrowed)
        assert len(sent) == len(sent_again) == 1
        for statement, parameters in (*sent, *sent_again):
            assert_indexed(database, statement, parameters)
