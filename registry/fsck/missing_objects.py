"""Rows whose objects are gone or damaged, shard by shard, so that memory holds one shard at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.fsck.finding import Finding, FindingKind
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
    """An object as its row has it."""

    of: Literal["sample", "prompt"]
    key: str
    digest: str
    size_bytes: int


def find_missing_objects(registry: Registry, one_more: Callable[[], None], *, deep: bool) -> Iterator[Finding]:
    """Every row whose object is not what the row says."""
    last: UUID | None = None
    while shards := _next_shards(registry, last):
        for source, shard in shards:
            yield from _in_shard(registry, source, shard, one_more, deep=deep)
        last = shards[-1][1]


def check_object(objects: ObjectStore, key: str, digest: str) -> Fault | None:
    """What is wrong with the object, found by reading it."""
    try:
        objects.read(key, digest)
    except ObjectMissing:
        return "lost"
    except ObjectDamaged:
        return "damaged"
    return None


def expected_objects(session: Session, shard: UUID) -> list[ExpectedObject]:
    """All objects that rows of this shard name."""
    samples = select(Sample).where(Sample.shard_id == shard).order_by(Sample.digest)
    found = [
        ExpectedObject("sample", sample_key(row.source_id, shard, row.digest), row.digest, row.size_bytes)
        for row in session.scalars(samples)
    ]
    for prompt in session.scalars(select(Prompt).where(Prompt.shard_id == shard)):
        found.append(ExpectedObject("prompt", prompt.key, prompt.digest, prompt.size_bytes))
    return found


def find_stale_prompts(session: Session) -> list[Finding]:
    """Prompts of another generation than their shard's, which must not be served."""
    stale = select(Prompt.key, Prompt.generation, Shard.generation).join(Shard, Shard.id == Prompt.shard_id)
    return [
        Finding("stale prompt", key, f"is of generation {there}, and its shard of {wanted}", True)
        for key, there, wanted in session.execute(stale.where(Prompt.generation != Shard.generation))
    ]


def _next_shards(registry: Registry, last: UUID | None) -> list[tuple[UUID, UUID]]:
    here = _unforgotten(select(Shard.source_id, Shard.id))
    if last is not None:
        here = here.where(Shard.id > last)
    with registry.database.read_transaction() as session:
        return [(source, shard) for source, shard in session.execute(here.order_by(Shard.id).limit(PAGE))]


def _unforgotten(shards: Select[UUID, UUID]) -> Select[UUID, UUID]:
    present = shards.join(Source, Source.id == Shard.source_id)
    return present.where(Source.erasure_id.is_(None), Shard.erasure_id.is_(None))


def _in_shard(
    registry: Registry, source: UUID, shard: UUID, one_more: Callable[[], None], *, deep: bool
) -> Iterator[Finding]:
    with registry.database.read_transaction() as session:
        expected = expected_objects(session, shard)
    sizes = {found.key: found.size_bytes for found in registry.objects.list_objects(shard_prefix(source, shard))}
    for named in expected:
        one_more()
        fault: Fault | None = None
        if named.key not in sizes:
            fault = "lost"
        elif sizes[named.key] != named.size_bytes:
            fault = "damaged"
        elif deep:
            fault = check_object(registry.objects, named.key, named.digest)
        if fault is not None and _is_still_named(registry, source, shard, named):
            yield Finding(FAULTS[named.of, fault], named.key, f"the bytes of a {named.of} are {fault}", True)


def _is_still_named(registry: Registry, source: UUID, shard: UUID, named: ExpectedObject) -> bool:
    """Whether the row is there still: what is being forgotten loses its objects rightly."""
    with registry.database.read_transaction() as session:
        here = _unforgotten(select(Shard.source_id, Shard.id)).where(Shard.id == shard, Shard.source_id == source)
        if session.execute(here).one_or_none() is None:
            return False
        if named.of == "prompt":
            return session.scalars(select(Prompt.id).where(Prompt.key == named.key)).one_or_none() is not None
        return session.get(Sample, (source, named.digest)) is not None
