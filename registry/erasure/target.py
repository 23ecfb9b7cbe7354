"""What an erasure is to remove, and where to look for it: in every table and under its prefixes."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Table, and_, func, or_, select
from sqlalchemy.orm import Session

from registry.db.models.base import Base
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import ReleaseLoss
from registry.db.models.write_claims import WriteClaim
from registry.storage.keys import shard_prefix

# These keep ids of what is gone, and nothing else of it; write claims are released by a step of their own.
KEPT_TABLES = frozenset(model.__tablename__ for model in (Erasure, ReleaseLoss, WriteClaim))


@dataclass(frozen=True)
class ErasureTarget:
    """The ids of what is forgotten: a source, or a shard of it, or a sample of that."""

    source: UUID
    shard: UUID | None
    sample: str | None
    prefixes: tuple[str, ...]

    @property
    def is_a_whole_shard(self) -> bool:
        """Whether nothing of the shard is left: it was forgotten itself, or with its last sample."""
        return self.shard is not None and self.prefixes == (shard_prefix(self.source, self.shard),)


def target_of(erasure: Erasure) -> ErasureTarget:
    """What this erasure is to remove."""
    return ErasureTarget(erasure.source_id, erasure.shard_id, erasure.sample, tuple(erasure.prefixes))


def rows_of(target: ErasureTarget) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Every table that may speak of the target, with the condition on the rows that do."""
    tables = Base.metadata.tables
    if target.shard is None:
        yield tables["sources"], tables["sources"].c.id == target.source
        yield from _naming("source_id", target.source)
    elif target.is_a_whole_shard:
        yield tables["shards"], tables["shards"].c.id == target.shard
        yield from _naming("shard_id", target.shard)
    else:
        samples, prompts = tables["samples"].c, tables["prompts"].c
        # In another shard it would be one that was uploaded again.
        yield tables["samples"], and_(samples.shard_id == target.shard, samples.digest == target.sample)
        taught = [prompts.key.startswith(prefix, autoescape=True) for prefix in target.prefixes]
        yield tables["prompts"], and_(prompts.shard_id == target.shard, or_(*taught))


def count_rows(session: Session, target: ErasureTarget) -> dict[str, int]:
    """How many rows are left in each table that has any."""
    counts = {
        table.name: session.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        for table, condition in rows_of(target)
    }
    return {name: count for name, count in counts.items() if count}


def _naming(column: str, value: UUID) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    for table in Base.metadata.sorted_tables:
        if table.name not in KEPT_TABLES and column in table.c:
            yield table, table.c[column] == value
