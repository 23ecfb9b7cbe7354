"""Keeping track of bytes outside the rows: who writes them, and clearing up after those who died."""

import os
import socket
from collections.abc import Collection
from uuid import UUID

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from registry.db.clock import after, now
from registry.db.database import Database
from registry.db.models.write_claims import Holding, Purpose
from registry.errors import DomainError, LeaseLost
from registry.storage.scratch import ScratchHome
from registry.storage.store import ObjectStore

HOLD_SECONDS = 60.0  # without a heartbeat, a holder counts as dead after this


def take(
    session: Session,
    holding: UUID,
    purpose: Purpose,
    source: UUID,
    *,
    shard: UUID | None = None,
    home: UUID | None = None,
    prefixes: Collection[str] = (),
    seconds: float = HOLD_SECONDS,
) -> None:
    """Notes that this process is about to write bytes of a source; call it with the source locked, before the first."""
    session.add(
        Holding(
            id=holding,
            purpose=purpose,
            source_id=source,
            shard_id=shard,
            holder=f"{socket.gethostname()}:{os.getpid()}",
            home=home,
            prefixes=list(prefixes),
            started_at=now(),
            expires_at=after(seconds),
        )
    )
    session.flush()


def renew(session: Session, holding: UUID, seconds: float = HOLD_SECONDS) -> None:
    """Moves the expiry ahead. Who is late counts as dead for good, since others have cleared up already."""
    _require_alive(session, holding)
    session.execute(update(Holding).where(Holding.id == holding).values(expires_at=after(seconds)))


def commit_objects(session: Session, holding: UUID) -> None:
    """Notes, in the transaction that gives the objects their rows, that none is without one any more."""
    _require_alive(session, holding)
    session.execute(update(Holding).where(Holding.id == holding).values(prefixes=[]))


def let_go(session: Session, holding: UUID) -> None:
    """Forgets the holding, whose bytes all have rows or are gone."""
    session.execute(delete(Holding).where(Holding.id == holding))


def clear_up(database: Database, objects: ObjectStore, scratch: ScratchHome) -> int:
    """Wipes this home's abandoned rooms and removes the objects of dead holders; returns how many are cleared."""
    with database.reading() as session:
        # Listed before the sweep: one that comes later has a room that the sweep may not have seen.
        here = session.scalars(select(Holding.id).where(Holding.home == scratch.id)).all()
    roomless = set(here) - scratch.sweep()
    with database.writing() as session:
        # A room is made before its holding and wiped before the holding goes: no room, no files.
        session.execute(update(Holding).where(Holding.id.in_(roomless)).values(home=None))
    with database.writing() as session:
        # Locked, so that one who commits just as the time runs out is seen either before, and kept from it, or
        # after, when its objects have rows. Who is skipped is looked at the next time.
        expired = select(Holding).where(Holding.expires_at <= now()).with_for_update(skip_locked=True)
        dead = session.scalars(expired).all()
    for holding in dead:
        # Once expired it can never commit, so what lies under its prefixes will never have a row.
        try:
            for prefix in holding.prefixes:
                objects.remove(prefix)
        except DomainError:  # it stays on record, and keeps nobody from clearing up after the others
            continue
        # One with a room may live, and be about to write: it stays on record until its room is gone.
        if holding.home is None:
            with database.writing() as session:
                let_go(session, holding.id)
    return len(dead)


def _require_alive(session: Session, holding: UUID) -> None:
    # Locked by a statement of its own, so that the next reads the clock after any wait for who clears up.
    session.execute(select(Holding.id).where(Holding.id == holding).with_for_update())
    alive = select(Holding.id).where(Holding.id == holding, Holding.expires_at > now())
    if session.scalars(alive).one_or_none() is None:
        raise LeaseLost("the work was given up, since its heartbeat stopped or its source is being forgotten")
