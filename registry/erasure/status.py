"""The progress of erasures: which steps are done, what the others wait for, and the receipt."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from alacarte.api.literals import ErasureScope
from registry.access.caller import Caller
from registry.db.models.erasures import Erasure, ErasureStep
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import NotFound


@dataclass(frozen=True)
class StepProgress:
    """One step: how often it was tried, what it removed, and why it is not done yet."""

    name: str
    attempts: int
    error: str | None
    found: dict[str, Any]  # Any: counts and texts, as they are kept
    done_at: datetime | None


@dataclass(frozen=True)
class ErasureProgress:
    """An erasure with its steps."""

    id: UUID
    scope: str
    task_id: UUID
    source_id: UUID
    shard_id: UUID | None
    sample: str | None
    requested_by: UUID | None
    requested_at: datetime
    completed_at: datetime | None
    epoch: int
    steps: tuple[StepProgress, ...]
    receipt: dict[str, Any] | None  # Any: a document, as it was signed

    @property
    def state(self) -> Literal["running", "complete"]:
        """Complete once the receipt is signed; until then serving has stopped and the other steps are retried."""
        return "running" if self.completed_at is None else "complete"

    @property
    def waits_for(self) -> tuple[str, ...]:
        """One line for each step that failed."""
        return tuple(f"{step.name}: {step.error}" for step in self.steps if step.error is not None)


def show_erasure(session: Session, caller: Caller, erasure_id: UUID) -> ErasureProgress:
    """Return the erasure, for the user who requested it and for admins."""
    erasure = session.scalars(_visible_to(caller).where(Erasure.id == erasure_id)).one_or_none()
    if erasure is None:
        raise NotFound("erasure", erasure_id)
    return progress_of(session, erasure)


def list_erasures(
    session: Session, caller: Caller, *, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[ErasureProgress]:
    """Return the caller's erasures, or all for an admin, oldest first."""
    found = read_page(session, _visible_to(caller), Erasure.id, after=after, limit=limit)
    return found.map(lambda erasure: progress_of(session, erasure))


def find_requested(
    session: Session,
    caller: Caller,
    scope: ErasureScope,
    source: UUID,
    *,
    shard: UUID | None = None,
    sample: str | None = None,
) -> Erasure | None:
    """Return the last erasure of exactly this target that the caller may see."""
    mine = _visible_to(caller).where(Erasure.scope == scope, Erasure.source_id == source)
    if shard is not None:
        mine = mine.where(Erasure.shard_id == shard)
    if sample is not None:
        mine = mine.where(Erasure.sample == sample)
    return session.scalars(mine.order_by(Erasure.id.desc()).limit(1)).one_or_none()


def progress_of(session: Session, erasure: Erasure) -> ErasureProgress:
    """Return the progress of an erasure without checking rights."""
    steps = select(ErasureStep).where(ErasureStep.erasure_id == erasure.id).order_by(ErasureStep.number)
    return ErasureProgress(
        id=erasure.id,
        scope=erasure.scope,
        task_id=erasure.task_id,
        source_id=erasure.source_id,
        shard_id=erasure.shard_id,
        sample=erasure.sample,
        requested_by=erasure.requested_by,
        requested_at=erasure.requested_at,
        completed_at=erasure.completed_at,
        epoch=erasure.epoch,
        steps=tuple(
            StepProgress(step.name, step.attempts, step.error, step.found, step.done_at)
            for step in session.scalars(steps)
        ),
        receipt=erasure.receipt,
    )


def _visible_to(caller: Caller) -> Select[Erasure]:
    erasures = select(Erasure)
    return erasures if caller.is_admin else erasures.where(Erasure.requested_by == caller.user_id)
