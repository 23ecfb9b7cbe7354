"""The whole examination, from what is quickly seen to what has to be read."""

from collections.abc import Iterator

from registry.fsck.finding import Finding, ProgressCallback
from registry.fsck.log_gaps import find_log_gaps
from registry.fsck.missing_objects import find_missing_objects, find_stale_prompts
from registry.fsck.orphan_objects import find_orphan_objects
from registry.fsck.stale_claims import find_abandoned_scratch, find_empty_shards, find_expired_claims
from registry.registry import Registry


def scan(registry: Registry, *, deep: bool = True, progress: ProgressCallback | None = None) -> Iterator[Finding]:
    """Everything that is not as it should be, as it is found; `deep` reads every object, otherwise sizes must do.

    It changes nothing, and whoever works meanwhile is not mistaken for a fault.
    """
    with registry.database.read_transaction() as session:
        findings = [
            *find_log_gaps(session),
            *find_expired_claims(session, registry.scratch),
            *find_empty_shards(session),
        ]
        findings += find_stale_prompts(session)
    yield from findings
    yield from find_abandoned_scratch(registry.scratch)
    count = 0

    def one_more() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count)

    yield from find_orphan_objects(registry, one_more)
    yield from find_missing_objects(registry, one_more, deep=deep)
