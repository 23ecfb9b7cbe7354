"""Dropping rows whose objects are lost, so that work can go on without them."""

from uuid import UUID

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from registry import audit
from registry.callers import Caller
from registry.doctor.leftovers import is_bare
from registry.doctor.lost_objects import fault_of
from registry.errors import Conflict
from registry.locking import lock_source
from registry.models.collections import Sample, Shard
from registry.models.prompts import Prompt, ReleasePrompt
from registry.objects.keys import SamplePlace, parse
from registry.registry import Registry


class StoreLooksEmpty(Conflict):
    """Everything at once seems lost, which is more often a disk that is not there."""


def drop_sample(registry: Registry, caller: Caller, key: str) -> str | None:
    """Drops the row of a picture whose bytes are lost or damaged; None if they are well, or nobody names them."""
    place = parse(key)
    if not isinstance(place, SamplePlace):
        return None
    _require_some_objects(registry)
    with registry.database.writing() as session:
        lock_source(session, place.source)
        sample = session.get(Sample, (place.source, place.digest))
        if sample is None or sample.shard_id != place.shard:
            return None
        fault = fault_of(registry.objects, key, sample.digest)
        if fault is None:
            return None
        session.delete(sample)
        session.flush()
        is_gone = _drop_if_bare(session, place.shard)
        if not is_gone:
            _make_work(session, place.shard)
        audit.append(
            session, caller.user_id, "doctor.sample_dropped", source=place.source, shard=place.shard, fault=fault
        )
    registry.objects.remove(key)
    shard = ", and its shard, which had no other" if is_gone else ""
    return f"THE PICTURE IS {fault.upper()}: its row was dropped{shard}. Upload it again if you have it"


def drop_prompt(registry: Registry, caller: Caller, key: str) -> str | None:
    """Drops the row of a prompt that cannot or must not be served, so that its shard is trained again."""
    with registry.database.reading() as session:
        prompt = session.scalars(select(Prompt).where(Prompt.key == key)).one_or_none()
    if prompt is None:
        return None
    with registry.database.writing() as session:
        lock_source(session, prompt.source_id)
        # A release that pins it right now is waited for, so that the count is right.
        locked = select(Prompt).where(Prompt.id == prompt.id).with_for_update()
        if session.scalars(locked).one_or_none() is None:
            return None
        shard = session.get_one(Shard, prompt.shard_id, with_for_update=True)
        if prompt.generation == shard.generation:
            _require_some_objects(registry)
            if fault_of(registry.objects, key, prompt.digest) is None:
                return None
        mine = ReleasePrompt.prompt_id == prompt.id
        releases = session.scalar(select(func.count()).select_from(ReleasePrompt).where(mine)) or 0
        session.execute(delete(Prompt).where(Prompt.id == prompt.id))  # and what pinned it, by cascade
        is_gone = _drop_if_bare(session, shard.id)
        if not is_gone:
            _make_work(session, shard.id)
        audit.append(
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
    with registry.database.reading() as session:
        source_id = session.scalar(select(Shard.source_id).where(Shard.id == shard_id))
    if source_id is None:
        return None
    with registry.database.writing() as session:
        lock_source(session, source_id)
        if not _drop_if_bare(session, shard_id):
            return None
        audit.append(session, caller.user_id, "doctor.shard_dropped", source=source_id, shard=shard_id)
    return "removed"


def _drop_if_bare(session: Session, shard: UUID) -> bool:
    bare = select(exists().where(Shard.id == shard, Shard.erasure_id.is_(None), is_bare()))
    if not session.scalar(bare):
        return False
    session.execute(delete(Shard).where(Shard.id == shard))
    return True


def _make_work(session: Session, shard_id: UUID) -> None:
    """A shard that failed for want of what is dropped now need not wait any longer."""
    shard = session.get_one(Shard, shard_id, with_for_update=True)
    shard.attempts, shard.error, shard.not_before = 0, None, None


def _require_some_objects(registry: Registry) -> None:
    if next(registry.objects.objects("sources/"), None) is None:
        raise StoreLooksEmpty(
            f"{registry.objects.name} holds nothing at all: check that it is the right one and its disk is mounted; "
            "if all is lost indeed, forget the sources"
        )
