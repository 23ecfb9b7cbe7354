"""The training queue: a shard whose current generation has no prompt is leased to one worker at a time."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, case, exists, or_, select, text, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.functions import FunctionElement

from registry.db.clock import now, seconds_from_now
from registry.db.models.catalog import Sample, Shard, Source, Task
from registry.db.models.prompts import Prompt
from registry.errors import DomainError, Invalid
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import sample_key
from registry.training.lease import (
    LEASE_SECONDS,
    UNLEASED,
    Lease,
    LeasedSample,
    LeasedTask,
    end_lease,
    to_single_line,
    validate_lease_seconds,
)

MAX_ATTEMPTS_IN_ORDER = 3  # then the shard, which may be crashing its workers, goes behind all others


def lease_next_shard(
    registry: Registry,
    worker: str,
    *,
    seconds: float = LEASE_SECONDS,
    tasks: Collection[UUID] | None = None,
    lease_id: UUID | None = None,
) -> Lease | None:
    """Lease the most urgent shard, of these tasks if any are given; None if no shard is due.

    The write claim says that this process may have files in the scratch folder of the lease's id. To write there, make
    that folder before the lease, as `lease_shard` does.
    """
    if not (worker := to_single_line(worker)):
        raise Invalid("a worker needs a name, such as its host and process id")
    validate_lease_seconds(seconds)
    lease_id = lease_id or new_id()
    scratch_id = registry.scratch.id
    with registry.database.write_transaction() as session:
        lease = _lease(session, lease_id, worker, scratch_id, seconds, tasks)
    if lease is not None:
        return lease
    with registry.database.read_transaction() as session:
        first = _most_urgent(aliased(Shard), tasks).scalar_subquery()
        source = session.scalars(select(Shard.source_id).where(Shard.id == first)).one_or_none()
    if source is None:
        return None
    # A shard is due, but its source was locked, for example by a worker that publishes. Waiting for the lock is safe
    # only before anything else is locked: hence a new transaction, which waits first.
    with registry.database.write_transaction() as session:
        session.execute(select(Source.id).where(Source.id == source).with_for_update(read=True, key_share=True))
        return _lease(session, lease_id, worker, scratch_id, seconds, tasks)


@contextmanager
def lease_shard(
    registry: Registry, worker: str, *, seconds: float = LEASE_SECONDS, tasks: Collection[UUID] | None = None
) -> Iterator[tuple[Lease, Path] | None]:
    """Yield a lease on the next shard and a private folder for its files; None if no shard is due.

    An error that leaves the block is recorded on the shard as a failed attempt. If the block ends without an error and
    nothing was published, the shard is given back. Either way its files and an object without a row are removed.
    The caller renews the lease from another thread.
    """
    lease_id = new_id()
    lease: Lease | None = None
    failure: str | None = None
    try:
        with registry.scratch.job_folder(lease_id) as folder:
            lease = lease_next_shard(registry, worker, seconds=seconds, tasks=tasks, lease_id=lease_id)
            yield None if lease is None else (lease, folder)
    except Exception as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        if lease is not None:
            # If the database or store is unreachable, lease and claim expire, and others clean up.
            with suppress(DomainError):
                end_lease(registry.database, lease, failure)
                write_claims.end_claim(registry.database, registry.objects, lease.id, folder)


def is_trained(shard: type[Shard]) -> ColumnElement[bool]:
    """Return the SQL condition that the current generation of a shard has its prompt."""
    return exists().where(Prompt.shard_id == shard.id, Prompt.generation == shard.generation)


def _lease(
    session: Session, lease_id: UUID, worker: str, scratch_id: UUID, seconds: float, tasks: Collection[UUID] | None
) -> Lease | None:
    leased = session.scalars(_lease_statement(lease_id, worker, seconds, tasks)).one_or_none()
    if leased is None:
        return None
    rows = select(Shard, Task, is_trained(Shard)).join(Source, Source.id == Shard.source_id).join(Task)
    shard, task, is_already_trained = session.execute(rows.where(Shard.id == leased)).one()
    if is_already_trained:
        # A worker whose lease had just expired published while the statement ran: the statement saw the shard as it
        # is now, but the prompts as they were when it began.
        session.execute(update(Shard).where(Shard.id == shard.id).values(**UNLEASED, attempts=0, error=None))
        return None
    lease = _build_lease(session, shard, task, lease_id, worker, seconds)
    write_claims.add_claim(
        session,
        lease.id,
        "train",
        lease.source_id,
        shard=lease.shard_id,
        scratch_id=scratch_id,
        prefixes=[lease.prompt_key],
        seconds=seconds,
    )
    return lease


def _lease_statement(
    lease_id: UUID, worker: str, seconds: float, tasks: Collection[UUID] | None
) -> ReturningUpdate[UUID]:
    """Return the statement that leases a shard to a worker.

    It locks the shard, and takes a shared lock on the source. Forgetting locks the source, then reads the claims and
    changes the shards. If forgetting comes first, the source is skipped here, and no new claim escapes it; if this
    comes first, forgetting waits for the commit and finds the claim. PostgreSQL chooses the order of the two locks,
    which is harmless: neither is waited for, nor is anything later in the transaction.
    """
    candidate = aliased(Shard, name="candidate")
    chosen = (
        _most_urgent(candidate, tasks)
        .with_for_update(of=candidate, skip_locked=True)
        .suffix_with(text("FOR KEY SHARE OF sources SKIP LOCKED"), dialect="postgresql")
    )
    lapsed = Shard.worker + " lost its lease at " + _format_time(Shard.expires_at)
    return (
        update(Shard)
        .where(Shard.id == chosen.scalar_subquery())
        .values(
            lease_id=lease_id,
            worker=worker,
            expires_at=seconds_from_now(seconds),
            attempts=Shard.attempts + 1,
            progress=0.0,
            error=case((Shard.lease_id.is_not(None), lapsed), else_=Shard.error),
        )
        .returning(Shard.id)
        .execution_options(synchronize_session=False)
    )


def _most_urgent(candidate: type[Shard], tasks: Collection[UUID] | None) -> Select[UUID]:
    """Return the query of the next shard: by priority, then fewest attempts, then oldest."""
    due = (
        select(candidate.id)
        .join(Source, Source.id == candidate.source_id)
        .where(
            Source.erasure_id.is_(None),
            candidate.erasure_id.is_(None),
            candidate.is_remote.is_(False),
            candidate.is_paused.is_(False),
            or_(candidate.not_before.is_(None), candidate.not_before <= now()),
            or_(candidate.expires_at.is_(None), candidate.expires_at <= now()),
            ~is_trained(candidate),
            exists().where(Sample.shard_id == candidate.id),  # without samples there is nothing to train on
        )
        .order_by(
            candidate.attempts >= MAX_ATTEMPTS_IN_ORDER, candidate.priority.desc(), candidate.attempts, candidate.id
        )
        .limit(1)
    )
    return due if tasks is None else due.where(Source.task_id.in_(tasks))


def _build_lease(session: Session, shard: Shard, task: Task, lease_id: UUID, worker: str, seconds: float) -> Lease:
    columns = select(Sample.digest, Sample.label, Sample.size_bytes).where(Sample.shard_id == shard.id)
    # Sorted here, because databases differ in text order.
    rows = sorted(session.execute(columns), key=lambda row: str(row.digest))
    return Lease(
        id=lease_id,
        worker=worker,
        seconds=seconds,
        shard_id=shard.id,
        source_id=shard.source_id,
        task=LeasedTask(
            id=task.id,
            name=task.name,
            backbone=task.backbone,
            size=task.size,
            identity=task.identity,
            recipe=task.recipe,
            labels=None if task.labels is None else tuple(task.labels),
        ),
        generation=shard.generation,
        seed=shard.seed,
        samples=tuple(
            LeasedSample(row.digest, row.label, sample_key(shard.source_id, shard.id, row.digest), row.size_bytes)
            for row in rows
        ),
    )


class _format_time(FunctionElement[str]):  # noqa: N801  # used like a function in statements
    """A time as text, to the second, in UTC."""

    type = Text()
    inherit_cache = True


@compiles(_format_time, "postgresql")
def _format_time_on_postgresql(element: _format_time, compiler: SQLCompiler, **kw: object) -> str:
    time = compiler.process(element.clauses, **kw)
    return f"to_char({time} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"')"


@compiles(_format_time, "sqlite")
def _format_time_on_sqlite(element: _format_time, compiler: SQLCompiler, **kw: object) -> str:
    return f"substr({compiler.process(element.clauses, **kw)}, 1, 19) || ' UTC'"
