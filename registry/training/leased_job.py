"""One attempt at a piece of work: its room, its lease and its claim, all gone again when the block ends."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

from sqlalchemy import update

from registry.db.clock import now
from registry.db.models.write_claims import WriteClaim
from registry.errors import DomainError
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import write_claims
from registry.training.lease import LEASE_SECONDS, Lease, end_lease
from registry.training.queue import lease_next_shard


@contextmanager
def lease_shard(
    registry: Registry, worker: str, *, seconds: float = LEASE_SECONDS, tasks: Collection[UUID] | None = None
) -> Iterator[tuple[Lease, Path] | None]:
    """Work, and a private folder for its files; None when there is no work.

    An error that leaves the block is noted as the failure of the attempt; if the block ends without one and nothing
    was published, or the process is told to stop, the shard is given back. Either way the files are wiped, and so
    is an object that no row names. Heartbeats are the caller's: `renew_lease`, from another thread.
    """
    lease_id = new_id()
    lease: Lease | None = None
    room: Path | None = None
    failure: str | None = None
    try:
        with registry.scratch.job_folder(lease_id) as room:
            lease = lease_next_shard(registry, worker, seconds=seconds, tasks=tasks, lease_id=lease_id)
            yield None if lease is None else (lease, room)
    except Exception as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        if lease is not None and room is not None:
            # A database or store that is away hides no other error: lease and claim run out, and others clear up.
            with suppress(DomainError):
                _end(registry, lease, room, failure)


def _end(registry: Registry, lease: Lease, room: Path, failure: str | None) -> None:
    """Gives back the shard, unless it was published or lost; removes the object, if no row names it; lets go."""
    with registry.database.write_transaction() as session:
        end_lease(session, lease, failure)
        # Run out, it can never commit; and a commit that is under way is waited for here, and its outcome seen.
        ended = (
            update(WriteClaim).where(WriteClaim.id == lease.id).values(expires_at=now()).returning(WriteClaim.prefixes)
        )
        prefixes = session.scalars(ended).one_or_none()
        if room.exists():  # it could not be wiped: the claim must tell of it until a sweep can
            return
        if not prefixes:
            write_claims.release_claim(session, lease.id)
            return
    for prefix in prefixes:
        registry.objects.remove(prefix)
    with registry.database.write_transaction() as session:
        write_claims.release_claim(session, lease.id)
