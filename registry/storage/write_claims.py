"""Keeping track of bytes outside the rows: who writes them, and clearing up after those who died."""

import os
import socket
from collections.abc import Collection
from pathlib import Path
from uuid import UUID

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from registry.db.clock import now, seconds_from_now
from registry.db.database import Database
from registry.db.models.write_claims import Purpose, WriteClaim
from registry.errors import DomainError, LeaseLost
from registry.storage.scratch import ScratchSpace
from registry.storage.store import ObjectStore

CLAIM_SECONDS = 60.0  # without a heartbeat, a holder counts as dead after this


def add_claim(
    session: Session,
    claim: UUID,
    purpose: Purpose,
    source: UUID,
    *,
    shard: UUID | None = None,
    scratch_id: UUID | None = None,
    prefixes: Collection[str] = (),
    seconds: float = CLAIM_SECONDS,
) -> None:
    """Notes that this process is about to write bytes of a source; call it with the source locked, before the first."""
    session.add(
        WriteClaim(
            id=claim,
            purpose=purpose,
            source_id=source,
            shard_id=shard,
            process=f"{socket.gethostname()}:{os.getpid()}",
            scratch_id=scratch_id,
            prefixes=list(prefixes),
            started_at=now(),
            expires_at=seconds_from_now(seconds),
        )
    )
    session.flush()


def renew_claim(session: Session, claim: UUID, seconds: float = CLAIM_SECONDS) -> None:
    """Moves the expiry ahead. Who is late counts as dead for good, since others have cleared up already."""
    _require_alive(session, claim)
    session.execute(update(WriteClaim).where(WriteClaim.id == claim).values(expires_at=seconds_from_now(seconds)))


def commit_objects(session: Session, claim: UUID) -> None:
    """Notes, in the transaction that gives the objects their rows, that none is without one any more."""
    _require_alive(session, claim)
    session.execute(update(WriteClaim).where(WriteClaim.id == claim).values(prefixes=[]))


def release_claim(session: Session, claim: UUID) -> None:
    """Forgets the claim, whose bytes all have rows or are gone."""
    session.execute(delete(WriteClaim).where(WriteClaim.id == claim))


def end_claim(database: Database, objects: ObjectStore, claim: UUID, job_folder: Path) -> None:
    """Remove the objects that the claim's job wrote without giving them rows, and release the claim.

    If the job's scratch folder could not be removed, the claim stays, expired, until `clean_up_abandoned` has done so.
    """
    with database.write_transaction() as session:
        # Once expired it can never commit. A commit under way is waited for here, and has emptied the prefixes.
        expired = update(WriteClaim).where(WriteClaim.id == claim).values(expires_at=now())
        prefixes = session.scalars(expired.returning(WriteClaim.prefixes)).one_or_none()
        if not prefixes:
            if not job_folder.exists():
                release_claim(session, claim)
            return
    for prefix in prefixes:
        objects.remove(prefix)
    if not job_folder.exists():
        with database.write_transaction() as session:
            release_claim(session, claim)


def clean_up_abandoned(database: Database, objects: ObjectStore, scratch: ScratchSpace) -> int:
    """Wipes this home's abandoned rooms and removes the objects of dead holders; returns how many are cleared."""
    with database.read_transaction() as session:
        # Listed before the sweep: one that comes later has a room that the sweep may not have seen.
        here = session.scalars(select(WriteClaim.id).where(WriteClaim.scratch_id == scratch.id)).all()
    roomless = set(here) - scratch.sweep()
    with database.write_transaction() as session:
        # A room is made before its claim and wiped before the claim goes: no room, no files.
        session.execute(update(WriteClaim).where(WriteClaim.id.in_(roomless)).values(scratch_id=None))
    with database.write_transaction() as session:
        # Locked, so that one who commits just as the time runs out is seen either before, and kept from it, or
        # after, when its objects have rows. Who is skipped is looked at the next time.
        expired = select(WriteClaim).where(WriteClaim.expires_at <= now()).with_for_update(skip_locked=True)
        dead = session.scalars(expired).all()
    for claim in dead:
        # Once expired it can never commit, so what lies under its prefixes will never have a row.
        try:
            for prefix in claim.prefixes:
                objects.remove(prefix)
        except DomainError:  # it stays on record, and keeps nobody from clearing up after the others
            continue
        # One with a room may live, and be about to write: it stays on record until its room is gone.
        if claim.scratch_id is None:
            with database.write_transaction() as session:
                release_claim(session, claim.id)
    return len(dead)


def _require_alive(session: Session, claim: UUID) -> None:
    # Locked by a statement of its own, so that the next reads the clock after any wait for who clears up.
    session.execute(select(WriteClaim.id).where(WriteClaim.id == claim).with_for_update())
    alive = select(WriteClaim.id).where(WriteClaim.id == claim, WriteClaim.expires_at > now())
    if session.scalars(alive).one_or_none() is None:
        raise LeaseLost("the work was given up, since its heartbeat stopped or its source is being forgotten")
