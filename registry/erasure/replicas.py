"""Replicas: who keeps prompts in memory, and how far each has let go of what was forgotten."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import case, delete, select, update
from sqlalchemy.orm import Session

from registry.db.clock import now, seconds_from_now
from registry.db.models.erasures import Erasure
from registry.db.models.log import LogHead
from registry.db.models.write_claims import Replica
from registry.errors import LeaseLost
from registry.ids import new_id


@dataclass(frozen=True)
class Eviction:
    """What to let go of: all of a source, or one shard of it."""

    epoch: int
    source_id: UUID
    shard_id: UUID | None


def current_epoch(session: Session) -> int:
    """The last line of the log. Lines are committed in their order: all erasures up to here can be seen."""
    return session.scalars(select(LogHead.number)).one()


def register_replica(session: Session, name: str, seconds: float) -> Replica:
    """A replica that begins with nothing in memory; forgetting waits for it for as long as its heartbeat goes on."""
    session.execute(delete(Replica).where(Replica.expires_at <= now()))  # nobody waits for the dead
    replica = Replica(id=new_id(), name=name, epoch=current_epoch(session), expires_at=seconds_from_now(seconds))
    session.add(replica)
    session.flush()
    session.refresh(replica)
    return replica


def report_epoch(session: Session, replica_id: UUID, epoch: int, seconds: float) -> None:
    """The replica lives, and holds nothing that was forgotten up to this epoch.

    LeaseLost if it was late: it counted as dead, so it must let go of everything and enrol anew.
    """
    mine = update(Replica).where(Replica.id == replica_id, Replica.expires_at > now())
    newest = case((Replica.epoch < epoch, epoch), else_=Replica.epoch)
    if (
        session.scalars(
            mine.values(epoch=newest, expires_at=seconds_from_now(seconds)).returning(Replica.id)
        ).one_or_none()
        is None
    ):
        raise LeaseLost("this replica counts as dead: let go of all prompts in memory, and enrol again")


def unregister_replica(session: Session, replica_id: UUID) -> None:
    """The replica holds nothing any more, and nobody waits for it."""
    session.execute(delete(Replica).where(Replica.id == replica_id))


def erasures_since(session: Session, epoch: int) -> list[Eviction]:
    """What was forgotten after this epoch, in order; a forgotten sample takes its shard's prompt with it."""
    newer = select(Erasure.epoch, Erasure.source_id, Erasure.shard_id).where(Erasure.epoch > epoch)
    return [Eviction(*row) for row in session.execute(newer.order_by(Erasure.epoch))]
