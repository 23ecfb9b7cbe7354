"""Finds rows whose objects are missing or damaged, one shard at a time to limit memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.fsck.finding import CountObject, Finding, FindingKind
from registry.registry import Registry
from registry.storage.keys import sample_key, shard_prefix
from registry.storage.store import ObjectDamaged, ObjectMissing, ObjectStore

PAGE = 500  # shards
Fault = Literal["lost", "damaged"]
FAULTS: dict[tuple[str, Fault], FindingKind] = {
    ("sample", "lost"): "lost sample",
    ("sample", "damaged"): "damaged sample",
    ("prompt", "lost"): "lost prompt",
    ("prompt", "damaged"): "damaged prompt",
}


@dataclass(frozen=True)
class ExpectedObject:
    """An object that a row names."""

    row_kind: Literal["sample", "prompt"]
    key: str
    digest: str
    size_bytes: int


def find_missing_objects(registry: Registry, count_object: CountObject, *, deep: bool) -> Iterator[Finding]:
    """Yield the rows whose object is not what the row says."""
    last: UUID | None = None
    while shards := _next_shards(registry, last):
        for source, shard in shards:
            yield from _check_shard(registry, source, shard, count_object, deep=deep)
        last = shards[-1][1]


def check_object(objects: ObjectStore, key: str, digest: str) -> Fault | None:
    """Read the object and return what is wrong with it."""
    try:
        objects.read(key, digest)
    except ObjectMissing:
        return "lost"
    except ObjectDamaged:
        return "damaged"
    return None


def expected_objects(session: Session, shard: UUID) -> list[ExpectedObject]:
    """Return all objects that rows of this shard name."""
    samples = select(Sample).where(Sample.shard_id == shard).order_by(Sample.digest)
    objects = [
        ExpectedObject("sample", sample_key(row.source_id, shard, row.digest), row.digest, row.size_bytes)
        for row in session.scalars(samples)
    ]
    for prompt in session.scalars(select(Prompt).where(Prompt.shard_id == shard)):
        objects.append(ExpectedObject("prompt", prompt.key, prompt.digest, prompt.size_bytes))
    return objects


def find_stale_prompts(session: Session) -> list[Finding]:
    """Return the prompts of another generation than their shard's, which must not be served."""
    stale = select(Prompt.key, Prompt.generation, Shard.generation).join(Shard, Shard.id == Prompt.shard_id)
    return [
        Finding("stale prompt", key, f"has generation {prompt_generation}, but its shard has {shard_generation}", True)
        for key, prompt_generation, shard_generation in session.execute(
            stale.where(Prompt.generation != Shard.generation)
        )
    ]


def _next_shards(registry: Registry, last: UUID | None) -> list[tuple[UUID, UUID]]:
    shards = _exclude_forgotten(select(Shard.source_id, Shard.id))
    if last is not None:
        shards = shards.where(Shard.id > last)
    with registry.database.read_transaction() as session:
        return [(source, shard) for source, shard in session.execute(shards.order_by(Shard.id).limit(PAGE))]


def _exclude_forgotten(shards: Select[UUID, UUID]) -> Select[UUID, UUID]:
    present = shards.join(Source, Source.id == Shard.source_id)
    return present.where(Source.erasure_id.is_(None), Shard.erasure_id.is_(None))


def _check_shard(
    registry: Registry, source: UUID, shard: UUID, count_object: CountObject, *, deep: bool
) -> Iterator[Finding]:
    with registry.database.read_transaction() as session:
        objects = expected_objects(session, shard)
    sizes = {found.key: found.size_bytes for found in registry.objects.list_objects(shard_prefix(source, shard))}
    for expected in objects:
        count_object()
        fault: Fault | None = None
        if expected.key not in sizes:
            fault = "lost"
        elif sizes[expected.key] != expected.size_bytes:
            fault = "damaged"
        elif deep:
            fault = check_object(registry.objects, expected.key, expected.digest)
        if fault is not None and _is_still_expected(registry, source, shard, expected):
            yield Finding(
                FAULTS[expected.row_kind, fault], expected.key, f"the bytes of a {expected.row_kind} are {fault}", True
            )


def _is_still_expected(registry: Registry, source: UUID, shard: UUID, expected: ExpectedObject) -> bool:
    """Whether the row still exists: what is being forgotten loses its objects on purpose."""
    with registry.database.read_transaction() as session:
        shards = _exclude_forgotten(select(Shard.source_id, Shard.id)).where(
            Shard.id == shard, Shard.source_id == source
        )
        if session.execute(shards).one_or_none() is None:
            return False
        if expected.row_kind == "prompt":
            return session.scalars(select(Prompt.id).where(Prompt.key == expected.key)).one_or_none() is not None
        return session.get(Sample, (source, expected.digest)) is not None
