"""Finds objects that no row names: leftovers of dead processes, and objects that the registry never wrote."""

import time
from collections.abc import Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Sample
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import Prompt
from registry.db.models.write_claims import WriteClaim
from registry.db.paging import batched
from registry.fsck.finding import CountObject, Finding
from registry.registry import Registry
from registry.storage.keys import PromptKey, SampleKey, is_under_prefix, parse_key, probe_timestamp, sample_key
from registry.storage.ownership import OWNERSHIP_KEY
from registry.storage.store import StoredItem

BATCH = 1000  # objects looked up in one query
PROBE_SECONDS = 3600.0  # after which no check of the store can still be running, even on a slow host with a wrong clock


def find_orphan_objects(registry: Registry, count_object: CountObject) -> Iterator[Finding]:
    """Yield the objects that have no row, and no process that will still give them one or remove them."""
    everything = (found for found in registry.objects.list_all("") if found.key != OWNERSHIP_KEY)
    for batch in batched(everything, BATCH):
        yield from filter_orphans(registry, batch)
        for _ in batch:
            count_object()


def filter_orphans(registry: Registry, listed: Sequence[StoredItem]) -> list[Finding]:
    """Return those of the listed objects that are orphans by the current rows."""
    by_key = {found.key: found for found in listed}
    ours = {key: place for key in by_key if (place := parse_key(key)) is not None}
    with registry.database.read_transaction() as session:
        # In this order: a commit releases its claim with or after inserting rows, and forgetting deletes rows first.
        claimed = [prefix for prefixes in session.scalars(select(WriteClaim.prefixes)) for prefix in prefixes]
        named = _named_keys(session, list(ours.values()))
        pending = select(Erasure.prefixes).where(Erasure.completed_at.is_(None))
        erasing = [prefix for prefixes in session.scalars(pending) for prefix in prefixes]
    findings = []
    for key, found in by_key.items():
        what = f"{found.size_bytes} bytes ({found.kind})"
        if (since := probe_timestamp(key)) is not None:
            if time.time() > since + PROBE_SECONDS and _still_exists(registry, key):
                findings.append(Finding("orphan object", key, f"{what} from a check of the store", True))
        elif key not in ours:
            findings.append(Finding("unknown object", key, f"{what} that the registry did not write", False))
        elif (
            key not in named
            and not any(is_under_prefix(key, prefix) for prefix in (*claimed, *erasing))
            and _still_exists(registry, key)
        ):
            findings.append(Finding("orphan object", key, f"{what} that no row names", True))
    return findings


def _still_exists(registry: Registry, key: str) -> bool:
    """Whether the object still exists since it was listed."""
    return any(True for _ in registry.objects.list_all(key))


def _named_keys(session: Session, places: Sequence[SampleKey | PromptKey]) -> set[str]:
    """Return those of the keys that rows name."""
    shards = {place.shard for place in places}
    digests = {place.digest for place in places if isinstance(place, SampleKey)}
    samples = select(Sample.source_id, Sample.shard_id, Sample.digest)
    samples = samples.where(Sample.shard_id.in_(shards), Sample.digest.in_(digests))
    keys = {sample_key(*row) for row in session.execute(samples)}
    return keys | set(session.scalars(select(Prompt.key).where(Prompt.shard_id.in_(shards))))
