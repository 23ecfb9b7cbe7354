"""No entry of the log can be changed, removed or truncated without a break."""

from collections.abc import Callable

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from registry.db.database import Database
from registry.db.models.log import LogEntry, LogHead
from registry.ids import new_id
from registry.log import chain
from tests.registry.factories import run_at_once


def write_lines(database: Database, count: int = 6) -> None:
    for number in range(count):
        with database.write_transaction() as session:
            chain.append_entry(session, new_id() if number % 2 else None, "user.created", user=new_id(), count=number)


def breaks_of(database: Database) -> list[int]:
    with database.read_transaction() as session:
        return [broken.number for broken in chain.find_breaks(session)]


@pytest.mark.parametrize("page", [chain.PAGE, 2])
def test_an_untouched_log_has_no_breaks(database: Database, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    monkeypatch.setattr(chain, "PAGE", page)
    assert breaks_of(database) == []
    write_lines(database, 7)

    assert breaks_of(database) == []


THIRD = LogEntry.number == 3


def change_the_time(session: Session) -> None:
    line = session.get_one(LogEntry, 3)
    line.at = line.at.replace(year=2020)


def take_a_line_out_and_close_the_gap(session: Session) -> None:
    session.execute(delete(LogEntry).where(THIRD))
    for number in (4, 5, 6):
        session.execute(update(LogEntry).where(LogEntry.number == number).values(number=number - 1))
    session.execute(update(LogHead).values(number=5))


def forge_a_line_with_a_hash_of_its_own(session: Session) -> None:
    line = session.get_one(LogEntry, 3)
    line.action = "user.removed"
    line.hash = chain._hash_entry(line.number, line.at, line.actor, line.action, line.subject, line.previous)


ATTACKS: dict[str, Callable[[Session], object]] = {
    "another action": lambda s: s.execute(update(LogEntry).where(THIRD).values(action="user.removed")),
    "another subject": lambda s: s.execute(update(LogEntry).where(THIRD).values(subject={"user": str(new_id())})),
    "another actor": lambda s: s.execute(update(LogEntry).where(THIRD).values(actor=new_id())),
    "another time": change_the_time,
    "a removed entry": lambda s: s.execute(delete(LogEntry).where(THIRD)),
    "a removed entry and a closed gap": take_a_line_out_and_close_the_gap,
    "a forged entry with a hash of its own": forge_a_line_with_a_hash_of_its_own,
    "a cut-off end": lambda s: s.execute(delete(LogEntry).where(LogEntry.number > 3)),
    "an emptied log": lambda s: s.execute(delete(LogEntry)),
    "no head": lambda s: s.execute(delete(LogHead)),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_every_attack_on_the_log_shows(attack: Callable[[Session], object], database: Database) -> None:
    write_lines(database)
    with database.write_transaction() as session:
        attack(session)

    assert breaks_of(database)


def test_concurrent_entries_form_one_chain(database: Database) -> None:
    run_at_once(*[lambda: write_lines(database, 5)] * 6)

    assert breaks_of(database) == []
    with database.read_transaction() as session:
        assert session.scalar(select(func.count()).select_from(LogEntry)) == 30


def test_an_entry_of_a_failed_transaction_is_not_in_the_log(database: Database) -> None:
    write_lines(database, 2)
    with pytest.raises(RuntimeError, match="undone"), database.write_transaction() as session:
        chain.append_entry(session, None, "user.created")
        raise RuntimeError("undone")
    write_lines(database, 1)

    assert breaks_of(database) == []
