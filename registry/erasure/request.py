"""Requests an erasure: one transaction stops serving and records the request; the runner does the rest.

A repeated request, by a client or a proxy that got no answer, returns the same erasure.
"""

from uuid import UUID

from sqlalchemy import ColumnElement, delete, exists, func, insert, literal, or_, select, true, update
from sqlalchemy.orm import Session

from alacarte.api.literals import ErasureScope
from registry import failpoints
from registry.access.caller import Caller
from registry.access.source_rights import require_right
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.erasures import Erasure, ErasureStep
from registry.db.models.prompts import Prompt, ReleaseLoss, ReleasePrompt
from registry.db.models.users import Grant
from registry.db.models.write_claims import WriteClaim
from registry.erasure.status import find_requested
from registry.erasure.steps import STEPS, UNSERVE
from registry.errors import NotFound
from registry.ids import new_id
from registry.ingest.tombstones import add_tombstones
from registry.log import chain
from registry.registry import Registry
from registry.storage.keys import prompts_prefix, sample_key, shard_prefix, source_prefix
from registry.training.lease import UNLEASED, clear_lease

RETRAIN_PRIORITY = 10  # of a shard that was already served: it goes before new ones


def forget_source(registry: Registry, caller: Caller, source_id: UUID) -> Erasure:
    """Stop serving the source, hide it, and record its erasure."""
    with registry.database.write_transaction() as session:
        try:
            source = require_right(session, caller, "forget", source_id)
        except NotFound:
            if (earlier := find_requested(session, caller, "source", source_id)) is not None:
                return earlier
            raise
        erasure = _new_erasure(session, caller, "source", source, prefixes=[source_prefix(source.id)])
        removed = _stop_serving(session, erasure, Prompt.source_id == source.id)
        removed["grants"] = _count_grants(session, source)
        session.execute(delete(Grant).where(Grant.source_id == source.id))
        _clear_leases(session, Shard.source_id == source.id)
        source.name, source.erasure_id = None, erasure.id
        _record(session, caller, erasure, removed, true())
    failpoints.hit_failpoint("erasure: requested")
    return erasure


def forget_shard(registry: Registry, caller: Caller, source_id: UUID, shard_id: UUID) -> Erasure:
    """Stop serving the shard, record its erasure, and leave tombstones of its samples."""
    with registry.database.write_transaction() as session:
        source = require_right(session, caller, "forget", source_id)
        if (earlier := find_requested(session, caller, "shard", source.id, shard=shard_id)) is not None:
            return earlier
        shard = _lock_shard(session, source, shard_id)
        prefixes = [shard_prefix(source.id, shard.id)]
        erasure = _new_erasure(session, caller, "shard", source, shard=shard.id, prefixes=prefixes)
        removed = _stop_serving(session, erasure, Prompt.shard_id == shard.id)
        digests = session.scalars(select(Sample.digest).where(Sample.shard_id == shard.id)).all()
        add_tombstones(session, source, erasure.id, digests)
        # Now, and not in a later step, so that the same picture can be uploaded again.
        session.execute(delete(Sample).where(Sample.shard_id == shard.id))
        removed["samples"] = len(digests)
        _clear_leases(session, Shard.id == shard.id)
        shard.erasure_id = erasure.id
        _record(session, caller, erasure, removed, _claims_of_shard(shard.id))
    failpoints.hit_failpoint("erasure: requested")
    return erasure


def forget_sample(registry: Registry, caller: Caller, source_id: UUID, digest: str) -> Erasure:
    """Delete the sample's row and record its erasure; its shard is served again once it is trained without it."""
    with registry.database.write_transaction() as session:
        source = require_right(session, caller, "forget", source_id)
        sample = session.get(Sample, (source.id, digest))
        if sample is None:
            if (earlier := find_requested(session, caller, "sample", source.id, sample=digest)) is not None:
                return earlier
            raise NotFound("sample", digest)
        shard = _lock_shard(session, source, sample.shard_id)
        session.delete(sample)
        session.flush()
        is_empty = not session.scalar(select(exists().where(Sample.shard_id == shard.id)))
        prefixes = (
            [shard_prefix(source.id, shard.id)]
            if is_empty
            else [sample_key(source.id, shard.id, digest), prompts_prefix(source.id, shard.id, shard.generation)]
        )
        erasure = _new_erasure(session, caller, "sample", source, shard=shard.id, sample=digest, prefixes=prefixes)
        removed = _stop_serving(session, erasure, Prompt.shard_id == shard.id)
        add_tombstones(session, source, erasure.id, [digest])
        removed["samples"] = 1
        _clear_leases(session, Shard.id == shard.id)
        if is_empty:  # a shard without samples does not exist
            session.execute(delete(Shard).where(Shard.id == shard.id))
        else:
            retrain(shard)
        _record(session, caller, erasure, removed, _claims_of_shard(shard.id))
    failpoints.hit_failpoint("erasure: requested")
    return erasure


def _lock_shard(session: Session, source: Source, shard_id: UUID) -> Shard:
    known = select(Shard).where(Shard.id == shard_id, Shard.source_id == source.id, Shard.erasure_id.is_(None))
    # Locked too, because a lease locks shards but not their source.
    shard = session.scalars(known.with_for_update(), execution_options={"populate_existing": True}).one_or_none()
    if shard is None:
        raise NotFound("shard", shard_id)
    return shard


def _new_erasure(
    session: Session,
    caller: Caller,
    scope: ErasureScope,
    source: Source,
    *,
    shard: UUID | None = None,
    sample: str | None = None,
    prefixes: list[str],
) -> Erasure:
    erasure = Erasure(
        id=new_id(),
        scope=scope,
        task_id=source.task_id,
        source_id=source.id,
        shard_id=shard,
        sample=sample,
        prefixes=prefixes,
        write_claims=[],
        requested_by=caller.user_id,
        requested_at=now(),
        epoch=0,  # set with the log entry
        not_before=now(),
    )
    session.add(erasure)
    session.flush()
    return erasure


def _stop_serving(session: Session, erasure: Erasure, prompts: ColumnElement[bool]) -> dict[str, int]:
    """Delete the prompts' rows, which are the right to be served, and record the loss of releases; return counts."""
    # Waits for a release that is pinning one of them; a later release does not find it.
    locked = session.scalars(select(Prompt.id).where(prompts).with_for_update()).all()
    pinned = select(ReleasePrompt).join(Prompt, Prompt.id == ReleasePrompt.prompt_id).where(prompts)
    losses = session.scalar(select(func.count()).select_from(pinned.subquery()))
    session.execute(
        insert(ReleaseLoss).from_select(
            ["release_id", "prompt_id", "source_id", "shard_id", "erasure_id", "lost_at"],
            pinned.with_only_columns(
                ReleasePrompt.release_id,
                Prompt.id,
                Prompt.source_id,
                Prompt.shard_id,
                literal(erasure.id, ReleaseLoss.erasure_id.type),
                now(),
            ),
        )
    )
    session.execute(delete(Prompt).where(prompts))  # and their pins, by cascade
    return {"prompts": len(locked), "pinned": losses or 0}


def _count_grants(session: Session, source: Source) -> int:
    return session.scalar(select(func.count()).select_from(Grant).where(Grant.source_id == source.id)) or 0


def _clear_leases(session: Session, shards: ColumnElement[bool]) -> None:
    session.execute(update(Shard).where(shards).values(**UNLEASED))


def retrain(shard: Shard) -> None:
    """Begin a new generation of the shard, to be trained before others; leases on the old one are lost."""
    shard.generation += 1
    shard.attempts, shard.error, shard.not_before = 0, None, None
    shard.priority = RETRAIN_PRIORITY
    clear_lease(shard)


def _claims_of_shard(shard: UUID) -> ColumnElement[bool]:
    # The claim of an upload names no shard, and the upload may contain the forgotten picture.
    return or_(WriteClaim.shard_id == shard, WriteClaim.shard_id.is_(None))


def _record(
    session: Session, caller: Caller, erasure: Erasure, removed: dict[str, int], claims: ColumnElement[bool]
) -> None:
    """Record the steps, the claims to wait for, and, last, the log entry, whose number is the erasure's epoch."""
    claim_ids = session.scalars(select(WriteClaim.id).where(WriteClaim.source_id == erasure.source_id, claims)).all()
    erasure.write_claims = [str(claim) for claim in claim_ids]
    for number, name in enumerate(STEPS):
        step = ErasureStep(erasure_id=erasure.id, number=number, name=name, attempts=0, found={})
        if name == UNSERVE:
            step.attempts, step.found, step.done_at = 1, removed, now()
        session.add(step)
    session.flush()
    erasure.epoch = chain.append_entry(
        session,
        caller.user_id,
        "erasure.began",
        erasure=erasure.id,
        scope=erasure.scope,
        source=erasure.source_id,
        shard=erasure.shard_id,
        **removed,
    )
    session.flush()
    session.refresh(erasure)
