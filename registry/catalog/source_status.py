"""The status of a source: its samples, and the training progress of each shard."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Right, ShardState
from registry.access.caller import Caller
from registry.access.source_rights import require_any_right
from registry.catalog.sources import source_name
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.errors import NotFound
from registry.training.queue import is_trained


@dataclass(frozen=True)
class ShardStatus:
    """The status of one shard."""

    id: UUID
    number: int
    generation: int
    samples: int
    size_bytes: int
    state: ShardState
    progress: float  # 0 to 1
    attempts: int
    worker: str | None  # shown, like the error, only with the right to manage or forget
    error: str | None  # of the last failed attempt
    not_before: datetime | None  # the time of the next attempt


@dataclass(frozen=True)
class SourceStatus:
    """The status of a source and of its shards, sorted by number."""

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    rights: frozenset[Right]  # of the caller
    labels: tuple[str, ...]  # sorted
    shards: tuple[ShardStatus, ...]

    @property
    def samples(self) -> int:
        """Count the pictures."""
        return sum(shard.samples for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """Sum the sizes of the pictures."""
        return sum(shard.size_bytes for shard in self.shards)

    @property
    def progress(self) -> float:
        """Return the mean progress of the shards, 0 to 1."""
        return sum(shard.progress for shard in self.shards) / len(self.shards) if self.shards else 0.0


def read_source_status(session: Session, caller: Caller, source_id: UUID) -> SourceStatus:
    """Return the status of a source that the caller may see."""
    source = session.scalars(select(Source).where(Source.id == source_id, Source.erasure_id.is_(None))).one_or_none()
    if source is None:
        raise NotFound("source", source_id)
    rights = require_any_right(session, caller, source)
    return SourceStatus(
        id=source.id,
        task_id=source.task_id,
        name=source_name(source),
        owner_id=source.owner_id,
        created_at=source.created_at,
        rights=rights,
        labels=_read_labels(session, source_id),
        shards=_read_shards(session, source_id, shows_details=not rights.isdisjoint({"manage", "forget"})),
    )


def _read_labels(session: Session, source_id: UUID) -> tuple[str, ...]:
    """Return the labels of the pictures, and those of prompts that were trained elsewhere."""
    labels = set(session.scalars(select(Sample.label).where(Sample.source_id == source_id).distinct()))
    remote = select(Prompt.labels).join(Shard, Shard.id == Prompt.shard_id)
    for prompt_labels in session.scalars(remote.where(Shard.source_id == source_id, Shard.is_remote)):
        labels.update(prompt_labels)
    return tuple(sorted(labels))


def _read_shards(session: Session, source_id: UUID, *, shows_details: bool) -> tuple[ShardStatus, ...]:
    sizes = select(Sample.shard_id, func.count(), func.sum(Sample.size_bytes)).where(Sample.source_id == source_id)
    totals = {shard: (count, total) for shard, count, total in session.execute(sizes.group_by(Sample.shard_id))}
    # By the database's clock, like the leases.
    statement = select(Shard, is_trained(Shard), Shard.expires_at > now(), Shard.not_before > now())
    current = statement.where(Shard.source_id == source_id, Shard.erasure_id.is_(None)).order_by(Shard.number)
    states = []
    for shard, has_prompt, is_leased, is_backing_off in session.execute(current):
        samples, size_bytes = totals.get(shard.id, (0, 0))
        state = _shard_state(shard, bool(has_prompt), bool(is_leased), bool(is_backing_off))
        states.append(
            ShardStatus(
                id=shard.id,
                number=shard.number,
                generation=shard.generation,
                samples=samples,
                size_bytes=int(size_bytes),
                state=state,
                progress=1.0 if has_prompt else (shard.progress or 0.0) if state == "training" else 0.0,
                attempts=shard.attempts,
                worker=shard.worker if shows_details and state == "training" else None,
                error=shard.error if shows_details and not has_prompt else None,
                not_before=shard.not_before if state == "backing off" else None,
            )
        )
    return tuple(states)


def _shard_state(shard: Shard, has_prompt: bool, is_leased: bool, is_backing_off: bool) -> ShardState:
    if shard.is_remote:
        return "remote"
    if has_prompt:
        return "trained"
    if shard.is_paused:
        return "paused"
    if is_leased:
        return "training"
    return "backing off" if is_backing_off else "waiting"
