"""Keeping track of bytes outside the rows: who writes them, and clearing up after those who died."""

import os
import socket
from collections.abc import Collection
from uuid import UUID

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from registry.database import Database
from registry.errors import LeaseLost
from registry.models.holdings import Holding, Purpose
from registry.moments import after, now
from registry.objects.store import ObjectStore
from registry.scratch import ScratchHome

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
    alive = update(Holding).where(Holding.id == holding, Holding.expires_at > now())
    renewed = session.execute(alive.values(expires_at=after(seconds)).returning(Holding.id))
    if renewed.one_or_none() is None:
        raise LeaseLost("the work was given up, since its heartbeat stopped or its source is being forgotten")


def commit_objects(session: Session, holding: UUID) -> None:
    """Notes, in the transaction that gives the objects their rows, that none is without one any more."""
    alive = update(Holding).where(Holding.id == holding, Holding.expires_at > now())
    if session.execute(alive.values(prefixes=[]).returning(Holding.id)).one_or_none() is None:
        raise LeaseLost("the work was given up, since its heartbeat stopped or its source is being forgotten")


def let_go(session: Session, holding: UUID) -> None:
    """Forgets the holding, whose bytes all have rows or are gone."""
    session.execute(delete(Holding).where(Holding.id == holding))


def clear_up(database: Database, objects: ObjectStore, scratch: ScratchHome) -> int:
    """Wipes this home's abandoned rooms and removes the objects of dead holders; returns how many are cleared."""
    living = scratch.sweep()
    with database.writing() as session:
        # A room is made before its holding and wiped before the holding goes: no room, no files.
        here = update(Holding).where(Holding.home == scratch.id, Holding.id.not_in(living))
        session.execute(here.values(home=None))
    with database.reading() as session:
        dead = session.scalars(select(Holding).where(Holding.expires_at <= now())).all()
    for holding in dead:
        # Once expired it can never commit, so what lies under its prefixes will never have a row.
        for prefix in holding.prefixes:
            objects.remove(prefix)
        with database.writing() as session:
            session.execute(
                update(Holding).where(Holding.id == holding.id, Holding.expires_at <= now()).values(prefixes=[])
            )
            gone = delete(Holding).where(Holding.id == holding.id, Holding.home.is_(None))
            session.execute(gone)
    return len(dead)
