"""What an erasure removes, and in which tables rows of it can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Table, and_, func, or_, select
from sqlalchemy.orm import Session

from registry.db.models.base import Base
from registry.db.models.erasures import Erasure
from registry.storage.keys import shard_prefix

# The first two keep ids of what is gone, and nothing else of it; write claims have a step of their own.
KEPT_TABLES = frozenset({"erasures", "release_losses", "write_claims"})


@dataclass(frozen=True)
class ErasureTarget:
    """The ids of what is forgotten: a source, a shard of it, or a sample of that."""

    source: UUID
    shard: UUID | None
    sample: str | None
    prefixes: tuple[str, ...]

    @property
    def is_whole_shard(self) -> bool:
        """Whether the whole shard goes: it was forgotten itself, or with its last sample."""
        return self.shard is not None and self.prefixes == (shard_prefix(self.source, self.shard),)


def target_of(erasure: Erasure) -> ErasureTarget:
    """Return what this erasure removes."""
    return ErasureTarget(erasure.source_id, erasure.shard_id, erasure.sample, tuple(erasure.prefixes))


def rows_of(target: ErasureTarget) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Yield every table that can have rows of the target, with the condition on those rows."""
    tables = Base.metadata.tables
    if target.shard is None:
        yield tables["sources"], tables["sources"].c.id == target.source
        yield from _tables_with("source_id", target.source)
    elif target.is_whole_shard:
        yield tables["shards"], tables["shards"].c.id == target.shard
        yield from _tables_with("shard_id", target.shard)
    else:
        samples, prompts = tables["samples"].c, tables["prompts"].c
        # In another shard, it is a picture that was uploaded again.
        yield tables["samples"], and_(samples.shard_id == target.shard, samples.digest == target.sample)
        trained_from = [prompts.key.startswith(prefix, autoescape=True) for prefix in target.prefixes]
        yield tables["prompts"], and_(prompts.shard_id == target.shard, or_(*trained_from))


def count_rows(session: Session, target: ErasureTarget) -> dict[str, int]:
    """Return the number of rows left, by table, without the tables that have none."""
    counts = {
        table.name: session.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        for table, condition in rows_of(target)
    }
    return {name: count for name, count in counts.items() if count}


def _tables_with(column: str, value: UUID) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    for table in Base.metadata.sorted_tables:
        if table.name not in KEPT_TABLES and column in table.c:
            yield table, table.c[column] == value
