"""The hash-chained log: append entries, and find entries that were changed or removed."""

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

GENESIS_HASH = "0" * 64  # the previous hash of the first entry
PAGE = 1000


def append_entry(session: Session, actor: UUID | None, action: str, **subject: object) -> int:
    """Append an entry and return its number. Call it last: it locks the log until the transaction ends."""
    head = session.execute(select(LogHead).with_for_update().execution_options(populate_existing=True)).scalar_one()
    at = session.execute(select(now())).scalar_one()
    # Both databases keep milliseconds: the hash must be the same when the entry is read again.
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    values = {name: _to_json(value) for name, value in subject.items() if value is not None}
    number, previous = head.number + 1, head.hash
    entry = LogEntry(number=number, at=at, actor=actor, action=action, subject=values, previous=previous)
    entry.hash = _hash_entry(number, at, actor, action, values, previous)
    session.add(entry)
    head.number, head.hash = number, entry.hash
    session.flush()
    return number


@dataclass(frozen=True)
class ChainBreak:
    """A place where the chain is broken."""

    number: int
    reason: str


def find_breaks(session: Session) -> Iterator[ChainBreak]:
    """Yield every place where the chain is broken, in order."""
    expected, previous = 1, GENESIS_HASH
    while entries := session.scalars(
        select(LogEntry).where(LogEntry.number >= expected).order_by(LogEntry.number).limit(PAGE)
    ).all():
        for entry in entries:
            if entry.number != expected:
                yield ChainBreak(expected, f"entries {expected} to {entry.number - 1} are missing")
            elif entry.previous != previous:
                yield ChainBreak(entry.number, "does not have the hash of the entry before it")
            expected_hash = _hash_entry(
                entry.number, entry.at, entry.actor, entry.action, entry.subject, entry.previous
            )
            if entry.hash != expected_hash:
                yield ChainBreak(entry.number, "was changed")
            expected, previous = entry.number + 1, entry.hash
        session.expunge_all()
    head = session.scalars(select(LogHead)).one_or_none()
    if head is None:
        yield ChainBreak(expected, "the head of the log is missing")
    elif (head.number, head.hash) != (expected - 1, previous):
        yield ChainBreak(expected, f"the log ends here, but its head names entry {head.number}")


def _to_json(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | list | dict) else str(value)


def _hash_entry(
    number: int, at: datetime, actor: UUID | None, action: str, subject: dict[str, Any], previous: str
) -> str:
    parts = [number, at.isoformat(timespec="milliseconds"), actor and str(actor), action, subject, previous]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
