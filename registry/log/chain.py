"""Writing the log, and checking that no line of it was changed or removed."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.clock import now
from registry.db.models.log import LogEntry, LogHead

GENESIS_HASH = "0" * 64  # what the first line is chained to
PAGE = 1000


def append_entry(session: Session, actor: UUID | None, action: str, **subject: object) -> int:
    """Adds a line and returns its number. Call it last: it locks the log until the transaction ends."""
    head = session.execute(select(LogHead).with_for_update().execution_options(populate_existing=True)).scalar_one()
    at = session.execute(select(now())).scalar_one()
    # To milliseconds, which both databases keep: the hash must come out the same when it is read back.
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    told = {name: _plain(value) for name, value in subject.items() if value is not None}
    number, previous = head.number + 1, head.hash
    line = LogEntry(number=number, at=at, actor=actor, action=action, subject=told, previous=previous)
    line.hash = _hash_of(number, at, actor, action, told, previous)
    session.add(line)
    head.number, head.hash = number, line.hash
    session.flush()
    return number


@dataclass(frozen=True)
class ChainBreak:
    """A place where the chain does not hold."""

    number: int
    reason: str


def find_breaks(session: Session) -> Iterator[ChainBreak]:
    """Every place where the log does not hold together, in order; none if it is whole."""
    expected, previous = 1, GENESIS_HASH
    while lines := session.scalars(
        select(LogEntry).where(LogEntry.number >= expected).order_by(LogEntry.number).limit(PAGE)
    ).all():
        for line in lines:
            if line.number != expected:
                yield ChainBreak(expected, f"lines {expected} to {line.number - 1} are missing")
            elif line.previous != previous:
                yield ChainBreak(line.number, "is not chained to the line before")
            told = _hash_of(line.number, line.at, line.actor, line.action, line.subject, line.previous)
            if line.hash != told:
                yield ChainBreak(line.number, "was changed")
            expected, previous = line.number + 1, line.hash
        session.expunge_all()
    head = session.scalars(select(LogHead)).one_or_none()
    if head is None:
        yield ChainBreak(expected, "the head of the log is missing")
    elif (head.number, head.hash) != (expected - 1, previous):
        yield ChainBreak(expected, f"the log ends here, and its head names line {head.number}")


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | list | dict) else str(value)


def _hash_of(number: int, at: datetime, actor: UUID | None, action: str, subject: dict[str, Any], previous: str) -> str:
    parts = [number, at.isoformat(timespec="milliseconds"), actor and str(actor), action, subject, previous]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
