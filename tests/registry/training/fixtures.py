"""Shards that wait for training, leases that expire, and metadata to publish."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select, update

from registry.access.caller import OPERATOR, Caller
from registry.db.clock import now, seconds_from_now
from registry.db.database import Database
from registry.db.models.catalog import Shard, Source, Task
from registry.db.models.prompts import Prompt
from registry.db.models.write_claims import WriteClaim
from registry.errors import DomainError, Forbidden, NotFound
from registry.ids import new_id
from registry.registry import Registry
from registry.training.control import cancel_training
from registry.training.lease import Lease
from registry.training.publish import PublishedMetadata
from registry.training.queue import lease_next_shard
from tests.registry.factories import make_grant, make_shard, make_source, make_task, make_user

METADATA = PublishedMetadata(identity="a" * 64, labels=("cat", "dog"), samples=2, extra={"settings": {"epochs": 3}})

# Of those who do not manage a source, by their right to it.
REFUSALS: dict[str | None, type[DomainError]] = {None: NotFound, "use": Forbidden, "forget": Forbidden}


def add_task(database: Database, labels: list[str] | None = None) -> Task:
    with database.write_transaction() as session:
        return make_task(session, labels=labels)


def add_source(database: Database, task: Task | None = None) -> Source:
    with database.write_transaction() as session:
        return make_source(session, task or make_task(session))


def add_shard(database: Database, source: Source | None = None, **columns: object) -> Shard:
    """Insert a shard of two samples with these columns, in a new source and task unless one is given."""
    with database.write_transaction() as session:
        shard = make_shard(session, source or make_source(session, make_task(session)), samples=2)
        for name, value in columns.items():
            setattr(shard, name, value)
    return shard


def lease_one(registry: Registry, worker: str = "ann") -> Lease:
    """Lease the next shard; one must be due."""
    lease = lease_next_shard(registry, worker)
    assert lease is not None
    return lease


def expire_lease(database: Database, lease: Lease) -> None:
    """Let the lease and its claim expire."""
    with database.write_transaction() as session:
        session.execute(update(Shard).where(Shard.lease_id == lease.id).values(expires_at=seconds_from_now(-1)))
        session.execute(update(WriteClaim).where(WriteClaim.id == lease.id).values(expires_at=seconds_from_now(-1)))


def read_shard(database: Database, shard_id: UUID) -> Shard:
    with database.read_transaction() as session:
        return session.get_one(Shard, shard_id)


def read_claim(database: Database, lease: Lease) -> WriteClaim | None:
    with database.read_transaction() as session:
        return session.get(WriteClaim, lease.id)


def update_shard(database: Database, shard_id: UUID, **columns: object) -> None:
    """Change columns of a shard directly."""
    with database.write_transaction() as session:
        session.execute(update(Shard).where(Shard.id == shard_id).values(**columns))


def mark_forgotten(database: Database, source_id: UUID) -> None:
    """Mark a source as being forgotten, and do nothing else."""
    with database.write_transaction() as session:
        session.execute(update(Source).where(Source.id == source_id).values(name=None, erasure_id=new_id()))


def _take_over(registry: Registry, lease: Lease) -> None:
    expire_lease(registry.database, lease)
    assert lease_one(registry, "bob").shard_id == lease.shard_id


def _cancel(registry: Registry, lease: Lease) -> None:
    with registry.database.write_transaction() as session:
        cancel_training(session, OPERATOR, lease.source_id)


# All the ways in which a worker can lose its lease.
WAYS_TO_LOSE_A_LEASE: dict[str, Callable[[Registry, Lease], None]] = {
    "expired": lambda registry, lease: expire_lease(registry.database, lease),
    "taken over": _take_over,
    "of an older generation": lambda registry, lease: update_shard(registry.database, lease.shard_id, generation=2),
    "cancelled": _cancel,
    "paused": lambda registry, lease: update_shard(registry.database, lease.shard_id, is_paused=True),
    "of a forgotten shard": lambda registry, lease: update_shard(
        registry.database, lease.shard_id, erasure_id=new_id()
    ),
    "of a forgotten source": lambda registry, lease: mark_forgotten(registry.database, lease.source_id),
}


def lease_new_shard(registry: Registry, worker: str = "ann", **columns: object) -> Lease:
    """Lease a new shard with these columns, in a source and task of its own."""
    with registry.database.read_transaction() as session:
        highest = session.scalar(select(func.max(Shard.priority))) or 0
    shard = add_shard(registry.database, None, **({"priority": highest + 1} | columns))
    lease = lease_one(registry, worker)
    assert lease.shard_id == shard.id
    return lease


def user_with_right(registry: Registry, source: Source, right: str | None) -> Caller:
    """Create a user with that right to the source, or with none."""
    with registry.database.write_transaction() as session:
        user = make_user(session)
        if right is not None:
            make_grant(session, user.id, source.id, right)
    return Caller(user.id, "predictor")


def seconds_until(database: Database, moment: datetime | None) -> float:
    """Return the seconds from now, by the database's clock, to the given time."""
    assert moment is not None
    with database.read_transaction() as session:
        return (moment - session.execute(select(now())).scalar_one()).total_seconds()


def list_prompts(database: Database) -> list[Prompt]:
    with database.read_transaction() as session:
        return list(session.scalars(select(Prompt)))


def list_keys(registry: Registry) -> list[str]:
    return [found.key for found in registry.objects.list_all("sources/")]
