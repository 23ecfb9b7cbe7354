"""Mending what an examination found; each finding is looked at again, under lock, right before anything goes."""

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
from registry.fsck.finding import Finding
from registry.fsck.log_gaps import acknowledge_gaps
from registry.fsck.missing_objects import check_object
from registry.fsck.orphan_objects import filter_orphans
from registry.fsck.stale_claims import is_empty_shard
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import SampleKey, parse_key
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
        chain.append_entry(session, caller.user_id, "doctor.removed", objects=removed.items, bytes=removed.size_bytes)
    return f"removed ({removed.size_bytes} bytes)"


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


class OlderVersionExists(Conflict):
    """What the row names is not there, but an older version of it is."""


def drop_sample(registry: Registry, caller: Caller, key: str) -> str | None:
    """Drops the row of a picture whose bytes are lost or damaged; None if they are well, or nobody names them."""
    place = parse_key(key)
    if not isinstance(place, SampleKey):
        return None
    with registry.database.write_transaction() as session:
        lock_source(session, place.source)
        sample = session.get(Sample, (place.source, place.digest))
        if sample is None or sample.shard_id != place.shard:
            return None
        fault = check_object(registry.objects, key, sample.digest)
        if fault is None:
            return None
        _refuse_if_recoverable(registry, key)
        session.delete(sample)
        session.flush()
        # What the shard learnt from it goes too, as when it is forgotten: no row would lead from the picture to it.
        learnt = session.scalars(delete(Prompt).where(Prompt.shard_id == place.shard).returning(Prompt.key)).all()
        is_gone = _drop_if_bare(session, place.shard)
        if not is_gone:
            retrain(session.get_one(Shard, place.shard, with_for_update=True))
        chain.append_entry(
            session, caller.user_id, "doctor.sample_dropped", source=place.source, shard=place.shard, fault=fault
        )
    for gone in (key, *learnt):
        registry.objects.remove(gone)
    shard = ", and its shard, which had no other" if is_gone else ", and its shard is trained again"
    return f"THE PICTURE IS {fault.upper()}: its row was dropped{shard}. Upload it again if you have it"


def drop_prompt(registry: Registry, caller: Caller, key: str) -> str | None:
    """Drops the row of a prompt that cannot or must not be served, so that its shard is trained again."""
    with registry.database.read_transaction() as session:
        prompt = session.scalars(select(Prompt).where(Prompt.key == key)).one_or_none()
    if prompt is None:
        return None
    with registry.database.write_transaction() as session:
        lock_source(session, prompt.source_id)
        # A release that pins it right now is waited for, so that the count is right.
        locked = select(Prompt).where(Prompt.id == prompt.id).with_for_update()
        if session.scalars(locked).one_or_none() is None:
            return None
        shard = session.get_one(Shard, prompt.shard_id, with_for_update=True)
        if prompt.generation == shard.generation:
            if check_object(registry.objects, key, prompt.digest) is None:
                return None
            _refuse_if_recoverable(registry, key)
        mine = ReleasePrompt.prompt_id == prompt.id
        releases = session.scalar(select(func.count()).select_from(ReleasePrompt).where(mine)) or 0
        session.execute(delete(Prompt).where(Prompt.id == prompt.id))  # and what pinned it, by cascade
        is_gone = _drop_if_bare(session, shard.id)
        if not is_gone:
            _make_work(session, shard.id)
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
    after = "its shard was removed: put the prompt again if you have it" if is_gone else "its shard is trained again"
    return f"dropped, also from {releases} releases; {after}"


def drop_shard(registry: Registry, caller: Caller, shard_id: UUID) -> str | None:
    """Drops a shard that has neither samples nor a prompt; None if it has."""
    with registry.database.read_transaction() as session:
        source_id = session.scalar(select(Shard.source_id).where(Shard.id == shard_id))
    if source_id is None:
        return None
    with registry.database.write_transaction() as session:
        lock_source(session, source_id)
        if not _drop_if_bare(session, shard_id):
            return None
        chain.append_entry(session, caller.user_id, "doctor.shard_dropped", source=source_id, shard=shard_id)
    return "removed"


def _drop_if_bare(session: Session, shard: UUID) -> bool:
    bare = select(exists().where(Shard.id == shard, Shard.erasure_id.is_(None), is_empty_shard()))
    if not session.scalar(bare):
        return False
    session.execute(delete(Shard).where(Shard.id == shard))
    return True


def _make_work(session: Session, shard_id: UUID) -> None:
    """A shard that failed for want of what is dropped now need not wait any longer."""
    shard = session.get_one(Shard, shard_id, with_for_update=True)
    shard.attempts, shard.error, shard.not_before = 0, None, None


def _refuse_if_recoverable(registry: Registry, key: str) -> None:
    """Leaves alone what the store may still have: mending would remove all versions."""
    if any(found.kind == "version" for found in registry.objects.list_all(key)):
        raise OlderVersionExists(
            f"{registry.objects.name} keeps an older version of it: restore that with the store's own tools first"
        )
