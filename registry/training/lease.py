"""Leases on shards: renewed by heartbeats, ended, or lost. `queue` takes them.

Lock order: a transaction that changes a shard's lease first takes a shared lock on its source (heartbeat, new lease) or
an exclusive one (publish, cancel, forget). So forgetting waits for leases that are being written, every later lease
sees it, and nobody waits for a source while locking its shard.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.orm import Session

from registry.db.clock import now, seconds_from_now
from registry.db.database import Database
from registry.db.models.catalog import Shard, Source
from registry.errors import Invalid, LeaseLost
from registry.storage import write_claims
from registry.storage.keys import prompt_key

LEASE_SECONDS = 60.0  # without a heartbeat, the lease expires after this
MAX_ERROR_CHARS = 500
FIRST_BACKOFF_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 3600.0
# The lease columns of a shard that nobody trains.
UNLEASED = {"lease_id": None, "worker": None, "expires_at": None, "progress": None}


@dataclass(frozen=True)
class LeasedTask:
    """What a worker needs to know about a task."""

    id: UUID
    name: str
    backbone: str  # as timm names it
    size: int | None  # pixels; None: the backbone's own
    identity: str | None  # of the backbone; None until the first prompt is published
    recipe: dict[str, Any]  # Any: the trainer validates it
    labels: tuple[str, ...] | None  # None: any


@dataclass(frozen=True)
class LeasedSample:
    """One labelled picture, and the key of its object."""

    digest: str
    label: str
    key: str
    size_bytes: int


@dataclass(frozen=True)
class Lease:
    """One generation of one shard, leased to one worker."""

    id: UUID  # also of its write claim and its scratch folder
    worker: str
    seconds: float  # until it expires without a heartbeat
    shard_id: UUID
    source_id: UUID
    task: LeasedTask
    generation: int
    seed: int
    samples: tuple[LeasedSample, ...]  # sorted by digest

    @property
    def prompt_key(self) -> str:
        """The key of its prompt, which no other lease uses."""
        return prompt_key(self.source_id, self.shard_id, self.generation, self.id)


def renew_lease(database: Database, lease: Lease, progress: float, seconds: float | None = None) -> None:
    """Extend the lease and record the progress, from 0 to 1; LeaseLost if the shard is not leased to it any more."""
    seconds = validate_lease_seconds(lease.seconds if seconds is None else seconds)
    with database.write_transaction() as session:
        _lock_source_shared(session, lease)
        renewed = (
            update(Shard)
            .where(is_lease_valid(lease))
            .values(expires_at=seconds_from_now(seconds), progress=_clamp_progress(progress))
        )
        if session.execute(renewed.returning(Shard.id)).one_or_none() is None:
            raise lease_lost(lease)
        write_claims.renew_claim(session, lease.id, seconds)


def end_lease(database: Database, lease: Lease, error: str | None = None) -> None:
    """Give the shard back; a lease that was lost or published is left alone.

    With an error the attempt has failed, and the next one waits; without, it is as if it had never been leased.
    """
    with database.write_transaction() as session:
        try:
            _lock_source_shared(session, lease)
        except LeaseLost:
            return
        own = select(Shard).where(Shard.id == lease.shard_id, Shard.lease_id == lease.id)  # expired or not
        shard = session.scalars(own.with_for_update()).one_or_none()
        if shard is None:
            return
        clear_lease(shard)
        if error is None:
            shard.attempts = max(shard.attempts - 1, 0)
        else:
            shard.error = to_single_line(error)
            shard.not_before = seconds_from_now(backoff_seconds(shard.attempts))


def clear_lease(shard: Shard) -> None:
    """Clear the columns of the shard's lease."""
    for column, value in UNLEASED.items():
        setattr(shard, column, value)


def backoff_seconds(attempts: int, first: float = FIRST_BACKOFF_SECONDS, longest: float = MAX_BACKOFF_SECONDS) -> float:
    """Return the delay before the next attempt: it doubles with every failed attempt, up to `longest`."""
    # The exponent is limited too, so that it cannot overflow a float after years of failures.
    return min(first * 2.0 ** min(max(attempts - 1, 0), 30), longest)


def is_lease_valid(lease: Lease) -> ColumnElement[bool]:
    """Return the SQL condition that this lease may still be renewed and published."""
    return and_(
        Shard.id == lease.shard_id,
        Shard.lease_id == lease.id,
        Shard.generation == lease.generation,
        Shard.erasure_id.is_(None),
        Shard.is_paused.is_(False),
        Shard.expires_at > now(),
    )


def lease_lost(lease: Lease) -> LeaseLost:
    """Return the error of a worker that has to stop."""
    return LeaseLost(
        f"the lease on shard {lease.shard_id} is lost: its heartbeat stopped, its training was cancelled, "
        "or part of the shard was forgotten"
    )


def validate_lease_seconds(seconds: float) -> float:
    """Return the duration of a lease if it is valid."""
    if not 0 < seconds <= 86_400:
        raise Invalid(f"a lease lasts more than 0 and up to 86400 seconds, not {seconds}: 60 is usual")
    return seconds


def to_single_line(text: str) -> str:
    """Return the text short, printable and without line breaks."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return words if len(words) <= MAX_ERROR_CHARS else words[: MAX_ERROR_CHARS - 1] + "…"


def _clamp_progress(progress: float) -> float:
    return min(max(progress, 0.0), 1.0) if progress == progress else 0.0  # NaN is no progress


def _lock_source_shared(session: Session, lease: Lease) -> None:
    """Keep the source from being forgotten until the transaction ends, without blocking other leases."""
    source = select(Source.id).where(Source.id == lease.source_id, Source.erasure_id.is_(None))
    if session.scalars(source.with_for_update(read=True, key_share=True)).one_or_none() is None:
        raise lease_lost(lease)
