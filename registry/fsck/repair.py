"""Mending what an examination found; each finding is looked at again, under lock, right before anything goes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from registry.access.caller import Caller, require_admin
from registry.db.models.write_claims import WriteClaim
from registry.errors import NotFound
from registry.fsck.drop_rows import OlderVersionExists, drop_prompt, drop_sample, drop_shard
from registry.fsck.finding import Finding
from registry.fsck.log_gaps import acknowledge_gaps
from registry.fsck.orphan_objects import filter_orphans
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.ownership import require_own_store

NOTHING_TO_REPAIR = "nothing was left to mend"


@dataclass(frozen=True)
class RepairResult:
    """What was done about a finding, in one line for a person."""

    finding: Finding
    action: str


def repair(registry: Registry, caller: Caller, findings: Iterable[Finding]) -> Iterator[RepairResult]:
    """Mends what can be mended, as the result is iterated over; only admins may."""
    require_admin(caller)
    require_own_store(registry.database, registry.objects)
    return _repair_each(registry, caller, findings)


def _repair_each(registry: Registry, caller: Caller, findings: Iterable[Finding]) -> Iterator[RepairResult]:
    for finding in findings:
        mend = REPAIRS.get(finding.kind)
        if mend is None or not finding.is_mendable:
            yield RepairResult(finding, "left as it is")
            continue
        try:
            action = mend(registry, caller, finding)
        except NotFound:  # its source is being forgotten, which takes all of it
            action = NOTHING_TO_REPAIR
        except OlderVersionExists as refusal:
            action = f"left as it is: {refusal}"
        yield RepairResult(finding, action)


def _remove_orphan(registry: Registry, caller: Caller, finding: Finding) -> str:
    listed = list(registry.objects.list_all(finding.subject))
    if not any(stray.kind == "orphan object" for stray in filter_orphans(registry, listed)):
        return NOTHING_TO_REPAIR
    removed = registry.objects.remove(finding.subject)
    with registry.database.write_transaction() as session:
        chain.append_entry(session, caller.user_id, "doctor.removed", objects=removed.things, bytes=removed.bytes)
    return f"removed ({removed.bytes} bytes)"


def _clear_up(registry: Registry, caller: Caller, finding: Finding) -> str:  # noqa: ARG001  # all mends look alike
    write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    if finding.kind == "abandoned room":
        return "wiped"
    with registry.database.read_transaction() as session:
        is_left = session.get(WriteClaim, UUID(finding.subject)) is not None
    return "left: its process is late, and still there" if is_left else "cleared up"


def _acknowledge(registry: Registry, caller: Caller, finding: Finding) -> str:  # noqa: ARG001
    with registry.database.write_transaction() as session:
        # The first of several breaks acknowledges all of them.
        count = acknowledge_gaps(session, caller.user_id)
    return "acknowledged: a broken log cannot be made whole" if count else NOTHING_TO_REPAIR


def _drop_shard(registry: Registry, caller: Caller, finding: Finding) -> str:
    return drop_shard(registry, caller, UUID(finding.subject)) or NOTHING_TO_REPAIR


def _drop_sample(registry: Registry, caller: Caller, finding: Finding) -> str:
    return drop_sample(registry, caller, finding.subject) or NOTHING_TO_REPAIR


def _drop_prompt(registry: Registry, caller: Caller, finding: Finding) -> str:
    return drop_prompt(registry, caller, finding.subject) or NOTHING_TO_REPAIR


REPAIRS: dict[str, Callable[[Registry, Caller, Finding], str]] = {
    "orphan object": _remove_orphan,
    "lost sample": _drop_sample,
    "damaged sample": _drop_sample,
    "lost prompt": _drop_prompt,
    "damaged prompt": _drop_prompt,
    "stale prompt": _drop_prompt,
    "empty shard": _drop_shard,
    "expired write claim": _clear_up,
    "abandoned room": _clear_up,
    "broken log": _acknowledge,
}
