"""Handing out work: a shard whose current generation has no prompt, to one worker at a time."""

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

UNLUCKY = 3  # attempts after which a shard, which may be what kills its workers, waits until all others are served


def lease_next_shard(
    registry: Registry,
    worker: str,
    *,
    seconds: float = LEASE_SECONDS,
    tasks: Collection[UUID] | None = None,
    lease_id: UUID | None = None,
) -> Lease | None:
    """The most urgent work, of these tasks if any are named; None if there is none.

    From now on this process counts as having files in the scratch room of the lease's id: whoever wants to write there
    makes the room first, under an id of their own, as `leased` does.
    """
    if not (worker := to_single_line(worker)):
        raise Invalid("a worker needs a name by which people find it, such as its host and process")
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
    # There is work, of a source that was locked a moment ago, as by another worker that publishes. Waiting for it is
    # safe only for one who has locked nothing yet: hence a new transaction, which waits first.
    with registry.database.write_transaction() as session:
        session.execute(select(Source.id).where(Source.id == source).with_for_update(read=True, key_share=True))
        return _lease(session, lease_id, worker, scratch_id, seconds, tasks)


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
    """The condition that the current generation of a shard has its prompt."""
    return exists().where(Prompt.shard_id == shard.id, Prompt.generation == shard.generation)


def _lease(
    session: Session, lease_id: UUID, worker: str, scratch_id: UUID, seconds: float, tasks: Collection[UUID] | None
) -> Lease | None:
    taken = session.scalars(_take(lease_id, worker, seconds, tasks)).one_or_none()
    if taken is None:
        return None
    found = select(Shard, Task, is_trained(Shard)).join(Source, Source.id == Shard.source_id).join(Task)
    shard, task, is_late = session.execute(found.where(Shard.id == taken)).one()
    if is_late:
        # Published while the statement ran, by a worker whose time was just up: the statement saw the shard as it is
        # now, and the prompts as they were when it began.
        session.execute(update(Shard).where(Shard.id == shard.id).values(**UNLEASED, attempts=0, error=None))
        return None
    lease = _described(session, shard, task, lease_id, worker, seconds)
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


def _take(lease_id: UUID, worker: str, seconds: float, tasks: Collection[UUID] | None) -> ReturningUpdate[UUID]:
    """The one statement that gives a shard to a worker.

    It locks the shard against other workers, and shares the source. Forgetting locks the source, and then reads the
    holdings and changes the shards. If that comes first, the source is skipped here, and no claim appears behind
    its back; if this comes first, forgetting waits for the commit, and finds the claim. PostgreSQL locks the two
    rows in an order of its own, which does no harm: neither is waited for, nor is anything later in the transaction.
    """
    candidate = aliased(Shard, name="candidate")
    chosen = (
        _most_urgent(candidate, tasks)
        .with_for_update(of=candidate, skip_locked=True)
        .suffix_with(text("FOR KEY SHARE OF sources SKIP LOCKED"), dialect="postgresql")
    )
    lapsed = Shard.worker + " lost its lease at " + _written(Shard.expires_at)
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
    """The work that comes next, if there is any: of equal urgency, what was tried least, then what came first."""
    found = (
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
            exists().where(Sample.shard_id == candidate.id),  # one that lost them all has nothing to teach
        )
        .order_by(candidate.attempts >= UNLUCKY, candidate.priority.desc(), candidate.attempts, candidate.id)
        .limit(1)
    )
    return found if tasks is None else found.where(Source.task_id.in_(tasks))


def _described(session: Session, shard: Shard, task: Task, lease_id: UUID, worker: str, seconds: float) -> Lease:
    rows = session.execute(
        select(Sample.digest, Sample.label, Sample.size_bytes).where(Sample.shard_id == shard.id)
    ).all()
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
            for row in sorted(rows, key=lambda row: str(row.digest))  # here, since databases differ in their order
        ),
    )


class _written(FunctionElement[str]):  # noqa: N801  # reads as a function in a statement
    """A moment as people read it, to the second, in UTC."""

    type = Text()
    inherit_cache = True


@compiles(_written, "postgresql")
def _written_on_postgresql(element: _written, compiler: SQLCompiler, **kw: object) -> str:
    moment = compiler.process(element.clauses, **kw)
    return f"to_char({moment} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"')"


@compiles(_written, "sqlite")
def _written_on_sqlite(element: _written, compiler: SQLCompiler, **kw: object) -> str:
    return f"substr({compiler.process(element.clauses, **kw)}, 1, 19) || ' UTC'"
