"""The life of a lease: kept by heartbeats, given back, or lost; how work is found is told in `work`.

Whoever touches a shard's lease first shares its source (a heartbeat, a new lease) or locks it (publishing, cancelling,
forgetting). So forgetting waits for all leases that are being written, every later one sees that it has begun, and
nobody holds a shard's row while waiting for its source's.
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

LEASE_SECONDS = 60.0  # without a heartbeat, a worker counts as dead after this
MAX_ERROR_CHARS = 500
FIRST_BACKOFF_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 3600.0
# What a shard's row says when nobody works on it.
UNLEASED = {"lease_id": None, "worker": None, "expires_at": None, "progress": None}


@dataclass(frozen=True)
class LeasedTask:
    """What a worker needs to know of a task."""

    id: UUID
    name: str
    backbone: str  # as timm names it
    size: int | None  # pixels; None: the backbone's own
    identity: str | None  # of the backbone; None: the first prompt will say
    recipe: dict[str, Any]  # Any: the trainer knows its words
    labels: tuple[str, ...] | None  # None: whatever the sources bring


@dataclass(frozen=True)
class LeasedSample:
    """One labelled picture, and where its bytes lie."""

    digest: str
    label: str
    key: str
    size_bytes: int


@dataclass(frozen=True)
class Lease:
    """One generation of one shard, given to one worker for a while."""

    id: UUID  # of its claim and of its scratch room too
    worker: str
    seconds: float  # for which a heartbeat keeps it
    shard_id: UUID
    source_id: UUID
    task: LeasedTask
    generation: int
    seed: int
    samples: tuple[LeasedSample, ...]  # sorted by digest

    @property
    def prompt_key(self) -> str:
        """Where its prompt will lie, and no other's."""
        return prompt_key(self.source_id, self.shard_id, self.generation, self.id)


def renew_lease(database: Database, lease: Lease, progress: float, seconds: float | None = None) -> None:
    """Shows that the worker lives and how far it is, from 0 to 1; raises LeaseLost when it works in vain."""
    seconds = validate_lease_seconds(lease.seconds if seconds is None else seconds)
    with database.write_transaction() as session:
        _share_source(session, lease)
        kept = (
            update(Shard)
            .where(is_lease_valid(lease))
            .values(expires_at=seconds_from_now(seconds), progress=_share_of_one(progress))
        )
        if session.execute(kept.returning(Shard.id)).one_or_none() is None:
            raise lease_lost(lease)
        write_claims.renew_claim(session, lease.id, seconds)


def end_lease(database: Database, lease: Lease, error: str | None = None) -> None:
    """Give the shard back; a lease that was lost or published is left alone.

    With an error the attempt has failed, and the next one waits; without, it is as if it had never been leased.
    """
    with database.write_transaction() as session:
        try:
            _share_source(session, lease)
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
    """The condition on a shard that this lease may still be renewed and published."""
    return and_(
        Shard.id == lease.shard_id,
        Shard.lease_id == lease.id,
        Shard.generation == lease.generation,
        Shard.erasure_id.is_(None),
        Shard.is_paused.is_(False),
        Shard.expires_at > now(),
    )


def lease_lost(lease: Lease) -> LeaseLost:
    """The error of a worker that has to stop."""
    return LeaseLost(
        f"the lease on shard {lease.shard_id} is lost: its heartbeat stopped, its training was cancelled, "
        "or something of it was forgotten"
    )


def validate_lease_seconds(seconds: float) -> float:
    """The duration of a lease, if it is one."""
    if not 0 < seconds <= 86_400:
        raise Invalid(f"a lease lasts up to a day, not {seconds} seconds: 60 are usual")
    return seconds


def to_single_line(text: str) -> str:
    """The text as a person can read it beside others: short, printable, and without line breaks."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return words if len(words) <= MAX_ERROR_CHARS else words[: MAX_ERROR_CHARS - 1] + "…"


def _share_of_one(progress: float) -> float:
    return min(max(progress, 0.0), 1.0) if progress == progress else 0.0  # what is no number is no progress


def _share_source(session: Session, lease: Lease) -> None:
    """Keeps the source from being forgotten until the transaction ends, beside others that do the same."""
    source = select(Source.id).where(Source.id == lease.source_id, Source.erasure_id.is_(None))
    if session.scalars(source.with_for_update(read=True, key_share=True)).one_or_none() is None:
        raise lease_lost(lease)
