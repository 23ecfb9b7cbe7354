"""Replicas: the processes that keep prompts in memory, and up to which erasure each has evicted them."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import case, delete, select, update
from sqlalchemy.orm import Session

from registry.db.clock import now, seconds_from_now
from registry.db.models.erasures import Erasure, Replica
from registry.db.models.log import LogHead
from registry.errors import LeaseLost
from registry.ids import new_id


@dataclass(frozen=True)
class Eviction:
    """What to evict: all of a source, or one shard of it."""

    epoch: int
    source_id: UUID
    shard_id: UUID | None


def current_epoch(session: Session) -> int:
    """Return the number of the last log entry; entries are committed in order, so all erasures up to it are visible."""
    return session.scalars(select(LogHead.number)).one()


def register_replica(session: Session, name: str, seconds: float) -> Replica:
    """Register a replica with nothing in memory; erasures wait for it as long as its heartbeat goes on."""
    session.execute(delete(Replica).where(Replica.expires_at <= now()))  # no erasure waits for dead replicas
    replica = Replica(id=new_id(), name=name, epoch=current_epoch(session), expires_at=seconds_from_now(seconds))
    session.add(replica)
    session.flush()
    session.refresh(replica)
    return replica


def report_epoch(session: Session, replica_id: UUID, epoch: int, seconds: float) -> None:
    """Record that the replica is alive and has evicted everything that was forgotten up to this epoch.

    LeaseLost if it is late: erasures did not wait for it, so it must evict all prompts and register again.
    """
    newest = case((Replica.epoch < epoch, epoch), else_=Replica.epoch)
    renewed = update(Replica).where(Replica.id == replica_id, Replica.expires_at > now())
    renewed = renewed.values(epoch=newest, expires_at=seconds_from_now(seconds))
    if session.scalars(renewed.returning(Replica.id)).one_or_none() is None:
        raise LeaseLost("this replica's registration has expired: evict all prompts from memory, and register again")


def unregister_replica(session: Session, replica_id: UUID) -> None:
    """Remove the replica, which has nothing in memory any more."""
    session.execute(delete(Replica).where(Replica.id == replica_id))


def erasures_since(session: Session, epoch: int) -> list[Eviction]:
    """Return what was forgotten after this epoch, in order; a forgotten sample evicts its shard's prompt."""
    newer = select(Erasure.epoch, Erasure.source_id, Erasure.shard_id).where(Erasure.epoch > epoch)
    return [Eviction(*row) for row in session.execute(newer.order_by(Erasure.epoch))]
