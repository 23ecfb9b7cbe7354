"""The time of an upload: from before its first byte is written until every byte has a row or is gone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from registry.db.clock import now
from registry.db.models.catalog import Shard
from registry.db.models.write_claims import WriteClaim
from registry.errors import DomainError
from registry.failpoints import hit_failpoint
from registry.ids import new_id
from registry.ingest.claim_heartbeat import Heartbeat
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import shard_prefix

T = TypeVar("T")


@dataclass(frozen=True)
class ClaimedUpload(Generic[T]):
    """A write claim of this process, with a room for files, and what the source was found to be."""

    id: UUID
    room: Path
    ground: T
    check: Callable[[], None]  # raises LeaseLost once the claim is


@contextmanager
def claim_shards(
    registry: Registry, source: UUID, shards: Sequence[UUID], approach: Callable[[Session], T], body: Path | None
) -> Iterator[ClaimedUpload[T]]:
    """Holds the source and the places of its new shards; `approach` locks it, or refuses, before anything is written.

    When the block ends, room and body are gone, and so are the objects of every shard that has no row.
    """
    claim = new_id()
    room: Path | None = None
    has_begun = False
    try:
        try:
            with registry.scratch.job_folder(claim) as room:
                with registry.database.write_transaction() as session:
                    ground = approach(session)
                    prefixes = [shard_prefix(source, shard) for shard in shards]
                    write_claims.add_claim(
                        session, claim, "upload", source, scratch_id=registry.scratch.id, prefixes=prefixes
                    )
                has_begun = True
                hit_failpoint("upload: claimed")
                with Heartbeat(registry.database, claim) as heartbeat:
                    yield ClaimedUpload(claim, room, ground, heartbeat.check)
        finally:
            if body is not None:
                body.unlink(missing_ok=True)
    except BaseException:
        # What cannot be cleared up now is cleared up by others once the claim has run out.
        with suppress(DomainError):
            if has_begun:
                _remove_rowless(registry, claim, source, shards)
            if room is None or not room.exists():
                _let_go(registry, claim)
        raise
    with suppress(DomainError):
        _let_go(registry, claim)


def _remove_rowless(registry: Registry, claim: UUID, source: UUID, shards: Sequence[UUID]) -> None:
    """Removes the objects of shards without a row.

    Whether they have rows is asked, not remembered: a connection may break after its transaction was committed.
    """
    with registry.database.write_transaction() as session:
        # Run out, it can never commit any more; and whoever is committing it is waited for here.
        session.execute(update(WriteClaim).where(WriteClaim.id == claim).values(expires_at=now()))
        rooted = set(session.scalars(select(Shard.id).where(Shard.id.in_(shards))))
    for shard in shards:
        if shard not in rooted:
            registry.objects.remove(shard_prefix(source, shard))


def _let_go(registry: Registry, claim: UUID) -> None:
    with registry.database.write_transaction() as session:
        write_claims.release_claim(session, claim)
