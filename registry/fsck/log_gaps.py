"""Gaps in the log: finds them, and acknowledges those that cannot be repaired."""

import hashlib
import json
from collections.abc import Iterator
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.db.models.log import LogEntry, LogHead
from registry.db.paging import batched
from registry.fsck.finding import Finding
from registry.log import chain

EXAMINED = "log.examined"
ACKNOWLEDGED = "log.acknowledged"
BATCH = 500  # gaps in one log entry

LogGap = tuple[int, str, str]  # the number of the entry, what is wrong there, and the digest of the entry as it is


def find_log_gaps(session: Session) -> Iterator[Finding]:
    """Yield every place where the log is not intact."""
    gaps = _log_gaps(session)
    known = _acknowledged(session, {number for number, _, _ in gaps})
    for gap in gaps:
        number, reason, _ = gap
        if gap in known:
            yield Finding("acknowledged log gap", str(number), f"{reason}; this was acknowledged", False)
        else:
            yield Finding("log gap", str(number), reason, True)


def acknowledge_gaps(session: Session, actor: UUID | None) -> int:
    """Log all gaps that are not acknowledged yet; return how many.

    An entry that is changed again afterwards is a new gap.
    """
    found = [[number, reason] for number, reason, _ in _log_gaps(session)]
    _repair_head(session)
    # If the end was cut off, only the next entry shows the gap: acknowledge the log as it is from now on.
    chain.append_entry(session, actor, EXAMINED, breaks=found[:BATCH], count=len(found))
    gaps = _log_gaps(session)
    known = _acknowledged(session, {number for number, _, _ in gaps})
    new = [list(gap) for gap in gaps if gap not in known]
    for batch in batched(new, BATCH):
        chain.append_entry(session, actor, ACKNOWLEDGED, breaks=batch)
    return len(new)


def _log_gaps(session: Session) -> list[LogGap]:
    found = [(broken.number, broken.reason) for broken in chain.find_breaks(session)]
    return [(number, reason, _fingerprint(session, number)) for number, reason in found]


def _acknowledged(session: Session, broken: set[int]) -> set[LogGap]:
    """Return the gaps that are acknowledged by intact entries."""
    entries = session.scalars(select(LogEntry).where(LogEntry.action == ACKNOWLEDGED))
    listed = [gap for entry in entries if entry.number not in broken for gap in entry.subject.get("breaks", [])]
    return {(number, reason, fingerprint) for number, reason, fingerprint in listed}


def _fingerprint(session: Session, number: int) -> str:
    entry = session.get(LogEntry, number, populate_existing=True)
    if entry is None:
        return ""
    parts = [entry.at.isoformat(), str(entry.actor), entry.action, entry.subject, entry.previous, entry.hash]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _repair_head(session: Session) -> None:
    """Set the head to the last entry if it is missing or behind: otherwise nothing could be appended."""
    last = session.scalar(select(func.max(LogEntry.number))) or 0
    head = session.scalars(select(LogHead).with_for_update()).one_or_none()
    if head is not None and head.number >= last:
        return
    entry = session.get(LogEntry, last)
    ending = chain.GENESIS_HASH if entry is None else entry.hash
    if head is None:
        session.add(LogHead(id=1, number=last, hash=ending))
    else:
        head.number, head.hash = last, ending
    session.flush()
