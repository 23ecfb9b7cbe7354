"""Runs erasures: any process claims the next one that is due, and failed steps are retried later."""

import threading
import time
from collections.abc import Callable
from uuid import UUID

from sqlalchemy import select, update

from registry.db.clock import now, seconds_from_now
from registry.db.database import Database
from registry.db.models.erasures import Erasure, ErasureStep
from registry.erasure.receipts import complete_erasure
from registry.erasure.status import ErasureProgress, progress_of
from registry.erasure.steps import STEPS, VERIFY
from registry.errors import DomainError
from registry.registry import Registry
from registry.training.lease import backoff_seconds

CLAIM_SECONDS = 30.0  # how long others skip the erasure; running it twice at once does no harm
FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 300.0
_POLL_SECONDS = 0.2


def run_erasures(registry: Registry, should_stop: Callable[[], bool] = lambda: False) -> int:
    """Run every erasure that is due once, until `should_stop`; return how many were completed."""
    completed = 0
    while not should_stop() and (erasure := _claim_next(registry.database)) is not None:
        completed += _run_steps(registry, erasure)
    return completed


def finish_erasure(registry: Registry, erasure_id: UUID, timeout: float = 0.0) -> ErasureProgress:
    """Run one erasure now, due or not, and again until it is complete or the time is up; return its progress."""
    deadline = time.monotonic() + timeout
    while not _run_steps(registry, erasure_id) and (left := deadline - time.monotonic()) > 0:
        threading.Event().wait(min(_POLL_SECONDS, left))
    with registry.database.read_transaction() as session:
        return progress_of(session, session.get_one(Erasure, erasure_id))


def _claim_next(database: Database) -> UUID | None:
    due = select(Erasure.id).where(Erasure.completed_at.is_(None), Erasure.not_before <= now())
    one = due.order_by(Erasure.not_before, Erasure.id).limit(1).with_for_update(skip_locked=True).scalar_subquery()
    with database.write_transaction() as session:
        mine = (
            update(Erasure)
            .where(Erasure.id == one)
            .values(not_before=seconds_from_now(CLAIM_SECONDS))
            .returning(Erasure.id)
        )
        return session.scalars(mine, execution_options={"synchronize_session": False}).one_or_none()


def _run_steps(registry: Registry, erasure_id: UUID) -> bool:
    """Try every step that is not done; return whether the erasure is complete."""
    with registry.database.read_transaction() as session:
        erasure = session.get_one(Erasure, erasure_id)
        steps = select(ErasureStep).where(ErasureStep.erasure_id == erasure_id).order_by(ErasureStep.number)
        undone = [step for step in session.scalars(steps) if step.done_at is None]
        session.expunge_all()
    if erasure.completed_at is not None:
        return True
    failed = 0
    for step in undone:
        # No step waits for another, so that an absent host delays no deletion; only the last one verifies all others.
        if step.name == VERIFY and failed:
            continue
        if not _try_step(registry, erasure, step.name):
            failed += 1
    if failed == 0 and _try_complete(registry, erasure):
        return True
    _back_off(registry.database, erasure_id, max((step.attempts for step in undone), default=0))
    return False


def _try_complete(registry: Registry, erasure: Erasure) -> bool:
    """Sign the receipt; return whether that worked, and record the error at the last step if not."""
    try:
        complete_erasure(registry, erasure.id)
    except Exception as error:
        _record_failure(registry.database, erasure.id, VERIFY, error)
        return False
    return True


def _try_step(registry: Registry, erasure: Erasure, name: str) -> bool:
    step = (ErasureStep.erasure_id == erasure.id, ErasureStep.name == name, ErasureStep.done_at.is_(None))
    with registry.database.write_transaction() as session:
        session.execute(
            update(Erasure).where(Erasure.id == erasure.id).values(not_before=seconds_from_now(CLAIM_SECONDS))
        )
        session.execute(update(ErasureStep).where(*step).values(attempts=ErasureStep.attempts + 1))
    try:
        STEPS[name](registry, erasure)
    except Exception as error:  # the next attempt may succeed
        _record_failure(registry.database, erasure.id, name, error)
        return False
    with registry.database.write_transaction() as session:
        session.execute(update(ErasureStep).where(*step).values(done_at=now(), error=None))
    return True


def _record_failure(database: Database, erasure: UUID, name: str, error: Exception) -> None:
    # The text of a library's error may contain values of rows.
    line = str(error) if isinstance(error, DomainError) else f"failed unexpectedly ({type(error).__name__})"
    with database.write_transaction() as session:
        step = update(ErasureStep).where(ErasureStep.erasure_id == erasure, ErasureStep.name == name)
        session.execute(step.values(error=line))


def _back_off(database: Database, erasure: UUID, attempts: int) -> None:
    seconds = backoff_seconds(attempts + 1, FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
    with database.write_transaction() as session:
        session.execute(update(Erasure).where(Erasure.id == erasure).values(not_before=seconds_from_now(seconds)))
