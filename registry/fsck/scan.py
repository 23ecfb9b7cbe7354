"""The whole examination, from what is quickly seen to what has to be read."""

from collections.abc import Iterator

from registry.fsck.finding import Finding, Report
from registry.fsck.log_gaps import find_breaks
from registry.fsck.missing_objects import lost_objects, stale_prompts
from registry.fsck.orphan_objects import stray_objects
from registry.fsck.stale_claims import abandoned_rooms, empty_shards, expired_holdings
from registry.registry import Registry


def examine(registry: Registry, *, deep: bool = True, progress: Report | None = None) -> Iterator[Finding]:
    """Everything that is not as it should be, as it is found; `deep` reads every object, otherwise sizes must do.

    It changes nothing, and whoever works meanwhile is not mistaken for a fault.
    """
    with registry.database.reading() as session:
        findings = [*find_breaks(session), *expired_holdings(session, registry.scratch), *empty_shards(session)]
        findings += stale_prompts(session)
    yield from findings
    yield from abandoned_rooms(registry.scratch)
    count = 0

    def one_more() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count)

    yield from stray_objects(registry, one_more)
    yield from lost_objects(registry, one_more, deep=deep)
