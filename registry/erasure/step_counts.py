"""What a step has found so far, kept in its row over all attempts."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.erasures import ErasureStep


def add_counts(session: Session, erasure: UUID, step: str, **counts: int) -> None:
    """Adds the counts to those of earlier attempts; of a step that is done nothing changes any more."""
    row = lock_step(session, erasure, step)
    if row.done_at is None:
        row.found = row.found | {name: row.found.get(name, 0) + count for name, count in counts.items()}


def lock_step(session: Session, erasure: UUID, step: str) -> ErasureStep:
    """The step's row, which others wait for until the transaction ends."""
    mine = select(ErasureStep).where(ErasureStep.erasure_id == erasure, ErasureStep.name == step)
    return session.scalars(mine.with_for_update(), execution_options={"populate_existing": True}).one()
