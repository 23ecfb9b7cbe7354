"""Breaks of the log: found, told from those that somebody has acknowledged, and acknowledged."""

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
BATCH = 500  # breaks in one line

LogGap = tuple[int, str, str]  # a break's line, what is wrong there, and the digest of the line as it stands


def find_log_gaps(session: Session) -> Iterator[Finding]:
    """Every place where the log does not hold together."""
    scars = _log_gaps(session)
    known = _acknowledged(session, {number for number, _, _ in scars})
    for scar in scars:
        number, reason, _ = scar
        if scar in known:
            yield Finding("acknowledged break", str(number), f"{reason}; this was acknowledged", False)
        else:
            yield Finding("broken log", str(number), reason, True)


def acknowledge_gaps(session: Session, actor: UUID | None) -> int:
    """Writes down all breaks that nobody has acknowledged, since none can be undone; returns how many.

    A line that is changed once more afterwards is a new break.
    """
    seen = [[number, reason] for number, reason, _ in _log_gaps(session)]
    _repair_head(session)
    # The first line after a cut end shows the gap: what is acknowledged is how the log looks from now on.
    chain.append_entry(session, actor, EXAMINED, breaks=seen[:BATCH], count=len(seen))
    scars = _log_gaps(session)
    known = _acknowledged(session, {number for number, _, _ in scars})
    new = [list(scar) for scar in scars if scar not in known]
    for batch in batched(new, BATCH):
        chain.append_entry(session, actor, ACKNOWLEDGED, breaks=batch)
    return len(new)


def _log_gaps(session: Session) -> list[LogGap]:
    found = [(broken.number, broken.reason) for broken in chain.find_breaks(session)]
    return [(number, reason, _fingerprint(session, number)) for number, reason in found]


def _acknowledged(session: Session, broken: set[int]) -> set[LogGap]:
    """What lines that are whole themselves acknowledge."""
    lines = session.scalars(select(LogEntry).where(LogEntry.action == ACKNOWLEDGED))
    told = [scar for line in lines if line.number not in broken for scar in line.subject.get("breaks", [])]
    return {(number, reason, fingerprint) for number, reason, fingerprint in told}


def _fingerprint(session: Session, number: int) -> str:
    line = session.get(LogEntry, number, populate_existing=True)
    if line is None:
        return ""
    parts = [line.at.isoformat(), str(line.actor), line.action, line.subject, line.previous, line.hash]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _repair_head(session: Session) -> None:
    """Where the head is missing or behind, no line can be appended any more: it is set to the last line."""
    last = session.scalar(select(func.max(LogEntry.number))) or 0
    head = session.scalars(select(LogHead).with_for_update()).one_or_none()
    if head is not None and head.number >= last:
        return
    line = session.get(LogEntry, last)
    ending = chain.GENESIS_HASH if line is None else line.hash
    if head is None:
        session.add(LogHead(id=1, number=last, hash=ending))
    else:
        head.number, head.hash = last, ending
    session.flush()
