"""Write claims: which processes may have bytes of a source that no row names, and the cleanup after dead ones."""

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

CLAIM_SECONDS = 60.0  # without a heartbeat, a claim expires after this


def add_claim(
    session: Session,
    claim_id: UUID,
    purpose: Purpose,
    source: UUID,
    *,
    shard: UUID | None = None,
    scratch_id: UUID | None = None,
    prefixes: Collection[str] = (),
    seconds: float = CLAIM_SECONDS,
) -> None:
    """Record that this process is about to write bytes of a source. Call it with the source locked, before a write."""
    session.add(
        WriteClaim(
            id=claim_id,
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


def renew_claim(session: Session, claim_id: UUID, seconds: float = CLAIM_SECONDS) -> None:
    """Extend the claim; LeaseLost if it has expired, because others may have cleaned up already."""
    _require_active(session, claim_id)
    session.execute(update(WriteClaim).where(WriteClaim.id == claim_id).values(expires_at=seconds_from_now(seconds)))


def commit_objects(session: Session, claim_id: UUID) -> None:
    """Clear the claim's prefixes, in the transaction that inserts the rows of its objects."""
    _require_active(session, claim_id)
    session.execute(update(WriteClaim).where(WriteClaim.id == claim_id).values(prefixes=[]))


def release_claim(session: Session, claim_id: UUID) -> None:
    """Delete the claim, whose bytes all have rows or are gone."""
    session.execute(delete(WriteClaim).where(WriteClaim.id == claim_id))


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
    """Remove the job folders of dead processes here and the objects of expired claims; return how many had expired."""
    with database.read_transaction() as session:
        # Listed before the sweep: a later claim may have a job folder that the sweep did not see.
        claims = session.scalars(select(WriteClaim.id).where(WriteClaim.scratch_id == scratch.id)).all()
    without_folder = set(claims) - scratch.sweep()
    with database.write_transaction() as session:
        # A job folder is created before its claim and removed before the claim: no folder means no files.
        session.execute(update(WriteClaim).where(WriteClaim.id.in_(without_folder)).values(scratch_id=None))
    with database.write_transaction() as session:
        # Locked, so that a claim that commits just as it expires is seen either before, and then cannot commit, or
        # after, when its objects have rows. Skipped claims are seen by the next run.
        statement = select(WriteClaim).where(WriteClaim.expires_at <= now()).with_for_update(skip_locked=True)
        expired = session.scalars(statement).all()
    for claim in expired:
        # An expired claim can never commit, so what is under its prefixes will never have a row.
        try:
            for prefix in claim.prefixes:
                objects.remove(prefix)
        except DomainError:  # the claim stays, and the next run tries again
            continue
        # A process that still has its job folder may be alive and about to write: its claim stays until that is gone.
        if claim.scratch_id is None:
            with database.write_transaction() as session:
                release_claim(session, claim.id)
    return len(expired)


def _require_active(session: Session, claim_id: UUID) -> None:
    # Locked by a statement of its own, so that the next one reads the clock after any wait for the lock.
    session.execute(select(WriteClaim.id).where(WriteClaim.id == claim_id).with_for_update())
    active = select(WriteClaim.id).where(WriteClaim.id == claim_id, WriteClaim.expires_at > now())
    if session.scalars(active).one_or_none() is None:
        raise LeaseLost("the work was abandoned: its heartbeat stopped, or its source is being forgotten")
