"""No entry of the log can be changed, removed or truncated without a break."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from registry.db.database import Database
from registry.db.models.log import LogEntry, LogHead
from registry.ids import new_id
from registry.log import chain


def write_lines(database: Database, count: int = 6) -> None:
    for number in range(count):
        with database.write_transaction() as session:
            chain.append_entry(session, new_id() if number % 2 else None, "user.created", user=new_id(), count=number)


def breaks_of(database: Database) -> list[int]:
    with database.read_transaction() as session:
        return [broken.number for broken in chain.find_breaks(session)]


def test_an_untouched_log_has_no_breaks(database: Database) -> None:
    assert breaks_of(database) == []
    write_lines(database)

    assert breaks_of(database) == []


def test_a_log_of_several_pages_has_no_breaks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "PAGE", 2)
    write_lines(database, 7)

    assert breaks_of(database) == []


def tamper_with_the_action(session: Session) -> None:
    session.execute(update(LogEntry).where(LogEntry.number == 3).values(action="user.removed"))


def tamper_with_the_subject(session: Session) -> None:
    session.execute(update(LogEntry).where(LogEntry.number == 3).values(subject={"user": str(new_id())}))


def tamper_with_the_actor(session: Session) -> None:
    session.execute(update(LogEntry).where(LogEntry.number == 3).values(actor=new_id()))


def tamper_with_the_time(session: Session) -> None:
    line = session.get_one(LogEntry, 3)
    line.at = line.at.replace(year=2020)


def take_a_line_out(session: Session) -> None:
    session.execute(delete(LogEntry).where(LogEntry.number == 3))


def take_a_line_out_and_close_the_gap(session: Session) -> None:
    take_a_line_out(session)
    for number in (4, 5, 6):
        session.execute(update(LogEntry).where(LogEntry.number == number).values(number=number - 1))
    session.execute(update(LogHead).values(number=5))


def forge_a_line_with_a_hash_of_its_own(session: Session) -> None:
    line = session.get_one(LogEntry, 3)
    line.action = "user.removed"
    line.hash = chain._hash_entry(line.number, line.at, line.actor, line.action, line.subject, line.previous)


def cut_the_end_off(session: Session) -> None:
    session.execute(delete(LogEntry).where(LogEntry.number > 3))


def empty_the_log(session: Session) -> None:
    session.execute(delete(LogEntry))


def remove_the_head(session: Session) -> None:
    session.execute(delete(LogHead))


@pytest.mark.parametrize(
    "attack",
    [
        tamper_with_the_action,
        tamper_with_the_subject,
        tamper_with_the_actor,
        tamper_with_the_time,
        take_a_line_out,
        take_a_line_out_and_close_the_gap,
        forge_a_line_with_a_hash_of_its_own,
        cut_the_end_off,
        empty_the_log,
        remove_the_head,
    ],
)
def test_every_attack_on_the_log_shows(attack: Callable[[Session], None], database: Database) -> None:
    write_lines(database)
    with database.write_transaction() as session:
        attack(session)

    assert breaks_of(database)


def test_concurrent_entries_form_one_chain(database: Database) -> None:
    threads = [threading.Thread(target=write_lines, args=(database, 5)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

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
