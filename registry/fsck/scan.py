"""The whole scan of `alacarte doctor`, from quick checks to those that read every object."""

from collections.abc import Callable, Iterator

from registry.fsck.finding import Finding
from registry.fsck.leftovers import find_abandoned_scratch, find_empty_shards, find_expired_claims
from registry.fsck.log_gaps import find_log_gaps
from registry.fsck.missing_objects import find_missing_objects, find_stale_prompts
from registry.fsck.orphan_objects import find_orphan_objects
from registry.registry import Registry


def scan(registry: Registry, *, deep: bool = True, progress: Callable[[int], None] | None = None) -> Iterator[Finding]:
    """Yield every inconsistency as it is found; `deep` reads every object, otherwise only sizes are compared.

    The scan changes nothing, and work in progress is not mistaken for a fault. `progress` gets the number of objects
    checked so far.
    """
    with registry.database.read_transaction() as session:
        findings = [
            *find_log_gaps(session),
            *find_expired_claims(session, registry.scratch),
            *find_empty_shards(session),
            *find_stale_prompts(session),
        ]
    yield from findings
    yield from find_abandoned_scratch(registry.scratch)
    count = 0

    def count_object() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count)

    yield from find_orphan_objects(registry, count_object)
    yield from find_missing_objects(registry, count_object, deep=deep)
