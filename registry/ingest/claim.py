"""The write claim of an upload: from before its first object is written until every object has a row or is gone."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy.orm import Session

from registry.db.heartbeat import Heartbeat
from registry.errors import DomainError
from registry.failpoints import hit_failpoint
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import shard_prefix

T = TypeVar("T")


@dataclass(frozen=True)
class ClaimedUpload(Generic[T]):
    """A write claim of this process, its scratch folder, and the result of the precheck."""

    id: UUID
    scratch: Path
    target: T
    check: Callable[[], None]  # raises LeaseLost once the claim is lost


@contextmanager
def claim_shards(
    registry: Registry,
    source: UUID,
    shards: Sequence[UUID],
    precheck: Callable[[Session], T],
    scratch: Path | None = None,
) -> Iterator[ClaimedUpload[T]]:
    """Claim the prefixes of the source's new shards, in the transaction in which `precheck` locks or refuses it.

    `scratch` is a scratch folder that the caller has made; without it, one is made here. When the block ends, that
    folder is gone, and so are the objects of every shard that has no row.
    """
    claim = new_id() if scratch is None else UUID(scratch.name)
    try:
        with registry.scratch.job_folder(claim) if scratch is None else _remove_afterwards(scratch) as folder:
            with registry.database.write_transaction() as session:
                target = precheck(session)
                prefixes = [shard_prefix(source, shard) for shard in shards]
                write_claims.add_claim(
                    session, claim, "upload", source, scratch_id=registry.scratch.id, prefixes=prefixes
                )
            hit_failpoint("upload: claimed")
            with Heartbeat(
                lambda: _renew(registry, claim),
                every_seconds=write_claims.CLAIM_SECONDS / 4,
                lifetime_seconds=write_claims.CLAIM_SECONDS,
            ) as heartbeat:
                yield ClaimedUpload(claim, folder, target, heartbeat.check)
    finally:
        # If the database or store is unreachable, others clean up once the claim has expired.
        with suppress(DomainError):
            write_claims.end_claim(registry.database, registry.objects, claim, registry.scratch.folder / str(claim))


@contextmanager
def _remove_afterwards(folder: Path) -> Iterator[Path]:
    """Remove the folder when the block ends; its lock stays with the caller."""
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _renew(registry: Registry, claim: UUID) -> None:
    with registry.database.write_transaction() as session:
        write_claims.renew_claim(session, claim)
