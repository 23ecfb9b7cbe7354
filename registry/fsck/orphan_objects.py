"""Objects that no row names: what a dead process left behind, and what was never ours."""

import time
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Sample
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import Prompt
from registry.db.models.write_claims import WriteClaim
from registry.db.paging import batched
from registry.fsck.finding import Finding
from registry.registry import Registry
from registry.storage.keys import PromptKey, SampleKey, is_under_prefix, parse_key, probe_timestamp, sample_key
from registry.storage.ownership import OWNERSHIP_KEY
from registry.storage.store import StoredItem

BATCH = 1000  # objects that are looked up at once
PROBE_SECONDS = 3600.0  # after which nobody can still be trying the store out, however slow it is, and wrong the clocks


def find_orphan_objects(registry: Registry, one_more: Callable[[], None]) -> Iterator[Finding]:
    """Whatever lies in the store and has neither a row nor somebody who is still to give it one or remove it."""
    everything = (found for found in registry.objects.list_all("") if found.key != OWNERSHIP_KEY)
    for batch in batched(everything, BATCH):
        yield from filter_orphans(registry, batch)
        for _ in batch:
            one_more()


def filter_orphans(registry: Registry, listed: Sequence[StoredItem]) -> list[Finding]:
    """Of what was just listed, the strays by the rows of now."""
    by_key = {found.key: found for found in listed}
    ours = {key: place for key in by_key if (place := parse_key(key)) is not None}
    with registry.database.read_transaction() as session:
        # In this order: who commits gives up its claim with or after its rows, and who forgets, its rows first.
        held = [prefix for prefixes in session.scalars(select(WriteClaim.prefixes)) for prefix in prefixes]
        named = _named(session, list(ours.values()))
        pending = select(Erasure.prefixes).where(Erasure.completed_at.is_(None))
        going = [prefix for prefixes in session.scalars(pending) for prefix in prefixes]
    findings = []
    for key, found in by_key.items():
        what = f"{found.size_bytes} bytes ({found.kind})"
        if (since := probe_timestamp(key)) is not None:
            if time.time() > since + PROBE_SECONDS and _is_there(registry, key):
                findings.append(Finding("orphan object", key, f"{what} by which somebody tried the store out", True))
        elif key not in ours:
            findings.append(Finding("unknown object", key, f"{what}, which the registry never put there", False))
        elif (
            key not in named
            and not any(is_under_prefix(key, prefix) for prefix in (*held, *going))
            and _is_there(registry, key)
        ):
            findings.append(Finding("orphan object", key, f"{what} that no row names", True))
    return findings


def _is_there(registry: Registry, key: str) -> bool:
    """Whether it has not gone since it was listed."""
    return any(True for _ in registry.objects.list_all(key))


def _named(session: Session, places: Sequence[SampleKey | PromptKey]) -> set[str]:
    """The keys among these that rows name."""
    shards = {place.shard for place in places}
    digests = {place.digest for place in places if isinstance(place, SampleKey)}
    samples = select(Sample.source_id, Sample.shard_id, Sample.digest)
    samples = samples.where(Sample.shard_id.in_(shards), Sample.digest.in_(digests))
    keys = {sample_key(*row) for row in session.execute(samples)}
    return keys | set(session.scalars(select(Prompt.key).where(Prompt.shard_id.in_(shards))))
