"""The rows of an upload: its shards, and in each the samples that fell into it."""

import secrets
from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from registry.datasets.dataset import LabelledPicture
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source
from registry.ingest.batches import batches

SEEDS = 2**31


def insert_samples(
    session: Session,
    source: Source,
    samples: Sequence[LabelledPicture],
    shard_of: Mapping[str, UUID],
    sizes: Mapping[str, int],
) -> tuple[UUID, ...]:
    """Adds the samples and those shards that have any; the source is locked. Returns the shards."""
    shards = tuple(sorted({shard_of[sample.digest] for sample in samples}))
    highest = session.scalar(select(func.max(Shard.number)).where(Shard.source_id == source.id))
    first = 0 if highest is None else highest + 1
    session.add_all(_new_shard(source, shard, first + place) for place, shard in enumerate(shards))
    session.flush()
    for batch in batches(samples):
        rows = [
            {
                "source_id": source.id,
                "digest": sample.digest,
                "shard_id": shard_of[sample.digest],
                "label": sample.label,
                "name": sample.name,
                "size_bytes": sizes[sample.digest],
            }
            for sample in batch
        ]
        session.execute(insert(Sample).values(added_at=now()), rows)
    return shards


def _new_shard(source: Source, shard: UUID, number: int) -> Shard:
    return Shard(
        id=shard,
        source_id=source.id,
        number=number,
        generation=1,
        seed=secrets.randbelow(SEEDS),
        is_remote=False,
        priority=0,
        attempts=0,
        is_paused=False,
    )
