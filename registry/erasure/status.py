"""How erasures stand: what is done, what each step waits for, and the receipt."""

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
    """One step: how often it was tried, what it found, and why it is not done, if it is not."""

    name: str
    attempts: int
    error: str | None
    found: dict[str, Any]  # Any: counts and texts, as they are kept
    done_at: datetime | None


@dataclass(frozen=True)
class ErasureProgress:
    """An erasure as people see it."""

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
        """Complete once the receipt is there; until then serving has stopped, and the rest is tried again and again."""
        return "running" if self.completed_at is None else "complete"

    @property
    def waits_for(self) -> tuple[str, ...]:
        """One line for each step that was tried in vain."""
        return tuple(f"{step.name}: {step.error}" for step in self.steps if step.error is not None)


def show_erasure(session: Session, caller: Caller, erasure_id: UUID) -> ErasureProgress:
    """The erasure, for those who asked for it and for admins."""
    erasure = session.scalars(_seen_by(caller).where(Erasure.id == erasure_id)).one_or_none()
    if erasure is None:
        raise NotFound("erasure", erasure_id)
    return progress_of(session, erasure)


def list_erasures(
    session: Session, caller: Caller, *, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[ErasureProgress]:
    """The caller's erasures, or all for an admin, oldest first."""
    found = read_page(session, _seen_by(caller), Erasure.id, after=after, limit=limit)
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
    """The last erasure of exactly this that the caller may see, if there is one."""
    mine = _seen_by(caller).where(Erasure.scope == scope, Erasure.source_id == source)
    if shard is not None:
        mine = mine.where(Erasure.shard_id == shard)
    if sample is not None:
        mine = mine.where(Erasure.sample == sample)
    return session.scalars(mine.order_by(Erasure.id.desc()).limit(1)).one_or_none()


def progress_of(session: Session, erasure: Erasure) -> ErasureProgress:
    """How an erasure stands, whoever asks."""
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


def _seen_by(caller: Caller) -> Select[Erasure]:
    every = select(Erasure)
    return every if caller.is_admin else every.where(Erasure.requested_by == caller.user_id)


def add_counts(session: Session, erasure_id: UUID, step: str, **counts: int) -> None:
    """Add to what earlier attempts of the step counted; a step that is done does not change any more."""
    row = lock_step(session, erasure_id, step)
    if row.done_at is None:
        row.found = row.found | {name: row.found.get(name, 0) + count for name, count in counts.items()}


def lock_step(session: Session, erasure_id: UUID, step: str) -> ErasureStep:
    """Return the step's row, locked until the transaction ends."""
    own = select(ErasureStep).where(ErasureStep.erasure_id == erasure_id, ErasureStep.name == step)
    return session.scalars(own.with_for_update(), execution_options={"populate_existing": True}).one()
