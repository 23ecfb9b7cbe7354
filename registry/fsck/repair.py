"""Repairs findings; each is checked again, under a lock, right before anything is removed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from registry.access.caller import Caller, require_admin
from registry.db.locks import lock_source
from registry.db.models.catalog import Sample, Shard
from registry.db.models.prompts import Prompt, ReleasePrompt
from registry.db.models.write_claims import WriteClaim
from registry.erasure.request import retrain
from registry.errors import Conflict, NotFound
from registry.fsck.finding import Finding, FindingKind
from registry.fsck.leftovers import is_empty_shard
from registry.fsck.log_gaps import acknowledge_gaps
from registry.fsck.missing_objects import check_object
from registry.fsck.orphan_objects import filter_orphans
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import SampleKey, parse_key
from registry.storage.ownership import require_own_store

NOTHING_TO_REPAIR = "nothing is left to repair"


class OlderVersionExists(Conflict):
    """The object of a row is missing, but the store has an older version of it."""


@dataclass(frozen=True)
class RepairResult:
    """What was done about a finding, in one line."""

    finding: Finding
    action: str


def repair(registry: Registry, caller: Caller, findings: Iterable[Finding]) -> Iterator[RepairResult]:
    """Repair what can be repaired, as the result is iterated over; for admins only."""
    require_admin(caller)
    require_own_store(registry.database, registry.objects)
    return (RepairResult(finding, _repair_one(registry, caller, finding)) for finding in findings)


def _repair_one(registry: Registry, caller: Caller, finding: Finding) -> str:
    repair_kind = REPAIRS.get(finding.kind)
    if repair_kind is None or not finding.is_repairable:
        return "left as it is"
    try:
        return repair_kind(registry, caller, finding) or NOTHING_TO_REPAIR
    except NotFound:  # its source is being forgotten, which removes all of it
        return NOTHING_TO_REPAIR
    except OlderVersionExists as error:
        return f"left as it is: {error}"


def _remove_orphan(registry: Registry, caller: Caller, finding: Finding) -> str | None:
    listed = list(registry.objects.list_all(finding.subject))
    if not any(orphan.kind == "orphan object" for orphan in filter_orphans(registry, listed)):
        return None
    removed = registry.objects.remove(finding.subject)
    with registry.database.write_transaction() as session:
        chain.append_entry(session, caller.user_id, "doctor.removed", objects=removed.items, bytes=removed.size_bytes)
    return f"removed ({removed.size_bytes} bytes)"


def _clean_up(registry: Registry, caller: Caller, finding: Finding) -> str:  # noqa: ARG001  # one signature for all
    write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    if finding.kind == "abandoned scratch folder":
        return "removed"
    with registry.database.read_transaction() as session:
        is_left = session.get(WriteClaim, UUID(finding.subject)) is not None
    return "left as it is: its process still runs although its heartbeat stopped" if is_left else "cleaned up"


def _acknowledge(registry: Registry, caller: Caller, finding: Finding) -> str | None:  # noqa: ARG001
    with registry.database.write_transaction() as session:
        # The first of several gaps acknowledges all of them.
        count = acknowledge_gaps(session, caller.user_id)
    return "acknowledged: a gap in the log cannot be repaired" if count else None


def _drop_sample(registry: Registry, caller: Caller, finding: Finding) -> str | None:
    """Delete the row of a picture whose object is missing or damaged."""
    key = parse_key(finding.subject)
    if not isinstance(key, SampleKey):
        return None
    with registry.database.write_transaction() as session:
        lock_source(session, key.source)
        sample = session.get(Sample, (key.source, key.digest))
        if sample is None or sample.shard_id != key.shard:
            return None
        fault = check_object(registry.objects, finding.subject, sample.digest)
        if fault is None:
            return None
        _refuse_if_recoverable(registry, finding.subject)
        session.delete(sample)
        session.flush()
        # The shard's prompt was trained on it and goes too: without the row, nothing could find it on forgetting.
        prompt_keys = session.scalars(delete(Prompt).where(Prompt.shard_id == key.shard).returning(Prompt.key)).all()
        is_gone = _delete_if_empty(session, key.shard)
        if not is_gone:
            retrain(session.get_one(Shard, key.shard, with_for_update=True))
        chain.append_entry(
            session, caller.user_id, "doctor.sample_dropped", source=key.source, shard=key.shard, fault=fault
        )
    for removed_key in (finding.subject, *prompt_keys):
        registry.objects.remove(removed_key)
    shard = ", and its shard, which had no other" if is_gone else ", and its shard is trained again"
    return f"THE PICTURE IS {fault.upper()}: its row was dropped{shard}. Upload it again if you have it"


def _drop_prompt(registry: Registry, caller: Caller, finding: Finding) -> str | None:
    """Delete the row of a prompt that cannot or must not be served, so that its shard is trained again."""
    key = finding.subject
    with registry.database.read_transaction() as session:
        prompt = session.scalars(select(Prompt).where(Prompt.key == key)).one_or_none()
    if prompt is None:
        return None
    with registry.database.write_transaction() as session:
        lock_source(session, prompt.source_id)
        # Waits for a release that is pinning it, so that the count is right.
        locked = select(Prompt).where(Prompt.id == prompt.id).with_for_update()
        if session.scalars(locked).one_or_none() is None:
            return None
        shard = session.get_one(Shard, prompt.shard_id, with_for_update=True)
        if prompt.generation == shard.generation:
            if check_object(registry.objects, key, prompt.digest) is None:
                return None
            _refuse_if_recoverable(registry, key)
        pins = select(func.count()).select_from(ReleasePrompt).where(ReleasePrompt.prompt_id == prompt.id)
        releases = session.scalar(pins) or 0
        session.execute(delete(Prompt).where(Prompt.id == prompt.id))  # and its pins, by cascade
        is_gone = _delete_if_empty(session, shard.id)
        if not is_gone:
            # Failures that were due to the missing prompt must not delay its training.
            shard.attempts, shard.error, shard.not_before = 0, None, None
        chain.append_entry(
            session,
            caller.user_id,
            "doctor.prompt_dropped",
            source=prompt.source_id,
            shard=prompt.shard_id,
            prompt=prompt.id,
            releases=releases,
        )
    registry.objects.remove(key)
    after = (
        "its shard was removed: publish the prompt again if you have it" if is_gone else "its shard is trained again"
    )
    return f"dropped, also from {releases} releases; {after}"


def _drop_shard(registry: Registry, caller: Caller, finding: Finding) -> str | None:
    """Delete a shard that has neither samples nor a prompt."""
    shard_id = UUID(finding.subject)
    with registry.database.read_transaction() as session:
        source_id = session.scalar(select(Shard.source_id).where(Shard.id == shard_id))
    if source_id is None:
        return None
    with registry.database.write_transaction() as session:
        lock_source(session, source_id)
        if not _delete_if_empty(session, shard_id):
            return None
        chain.append_entry(session, caller.user_id, "doctor.shard_dropped", source=source_id, shard=shard_id)
    return "removed"


REPAIRS: dict[FindingKind, Callable[[Registry, Caller, Finding], str | None]] = {
    "orphan object": _remove_orphan,
    "lost sample": _drop_sample,
    "damaged sample": _drop_sample,
    "lost prompt": _drop_prompt,
    "damaged prompt": _drop_prompt,
    "stale prompt": _drop_prompt,
    "empty shard": _drop_shard,
    "expired write claim": _clean_up,
    "abandoned scratch folder": _clean_up,
    "log gap": _acknowledge,
}


def _delete_if_empty(session: Session, shard: UUID) -> bool:
    is_empty = select(exists().where(Shard.id == shard, Shard.erasure_id.is_(None), is_empty_shard()))
    if not session.scalar(is_empty):
        return False
    session.execute(delete(Shard).where(Shard.id == shard))
    return True


def _refuse_if_recoverable(registry: Registry, key: str) -> None:
    """Refuse to drop an object of which the store has an older version: that would remove all versions."""
    if any(found.kind == "version" for found in registry.objects.list_all(key)):
        raise OlderVersionExists(
            f"{registry.objects.name} has an older version of it: restore that with the store's own tools first"
        )
