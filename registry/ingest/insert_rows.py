"""Inserts the rows of an upload: its shards, and the samples of each."""

import secrets
from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from registry.datasets.dataset import LabelledPicture
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.paging import batched

SEEDS = 2**31


def insert_samples(
    session: Session,
    source: Source,
    samples: Sequence[LabelledPicture],
    shard_by_digest: Mapping[str, UUID],
    sizes: Mapping[str, int],
) -> tuple[UUID, ...]:
    """Insert the samples and the shards that have any, with the source locked; return the shards."""
    shards = tuple(sorted({shard_by_digest[sample.digest] for sample in samples}))
    first = next_shard_number(session, source)
    session.add_all(
        new_shard(source, shard, number, seed=secrets.randbelow(SEEDS)) for number, shard in enumerate(shards, first)
    )
    session.flush()
    for batch in batched(samples):
        rows = [
            {
                "source_id": source.id,
                "digest": sample.digest,
                "shard_id": shard_by_digest[sample.digest],
                "label": sample.label,
                "name": sample.name,
                "size_bytes": sizes[sample.digest],
            }
            for sample in batch
        ]
        session.execute(insert(Sample).values(added_at=now()), rows)
    return shards


def next_shard_number(session: Session, source: Source) -> int:
    """Return the number of the source's next shard; call it with the source locked."""
    highest = session.scalar(select(func.max(Shard.number)).where(Shard.source_id == source.id))
    return 0 if highest is None else highest + 1


def new_shard(source: Source, shard_id: UUID, number: int, *, seed: int, is_remote: bool = False) -> Shard:
    """Return the row of a shard at its first generation."""
    return Shard(
        id=shard_id,
        source_id=source.id,
        number=number,
        generation=1,
        seed=seed,
        is_remote=is_remote,
        priority=0,
        attempts=0,
        is_paused=False,
    )
