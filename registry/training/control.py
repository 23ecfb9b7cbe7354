"""Pauses and resumes the training of a source."""

from uuid import UUID

from sqlalchemy import ColumnElement, and_, update
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.source_rights import require_right
from registry.db.models.catalog import Shard
from registry.log import chain
from registry.training.lease import UNLEASED
from registry.training.queue import is_trained


def cancel_training(session: Session, caller: Caller, source_id: UUID) -> int:
    """Pause the source's untrained shards until training is resumed; return how many.

    Their workers learn it from the next heartbeat, and cannot publish.
    """
    source = require_right(session, caller, "manage", source_id)
    paused = update(Shard).where(_is_untrained(source.id)).values(**UNLEASED, is_paused=True)
    shards = len(session.scalars(paused.returning(Shard.id)).all())
    chain.append_entry(session, caller.user_id, "training.cancelled", source=source.id, shards=shards)
    return shards


def resume_training(session: Session, caller: Caller, source_id: UUID) -> int:
    """Make all untrained shards of the source due for training now, whatever failed before; return how many."""
    source = require_right(session, caller, "manage", source_id)
    resumed = update(Shard).where(_is_untrained(source.id)).values(is_paused=False, attempts=0, not_before=None)
    shards = len(session.scalars(resumed.returning(Shard.id)).all())
    chain.append_entry(session, caller.user_id, "training.resumed", source=source.id, shards=shards)
    return shards


def _is_untrained(source_id: UUID) -> ColumnElement[bool]:
    return and_(
        Shard.source_id == source_id, Shard.is_remote.is_(False), Shard.erasure_id.is_(None), ~is_trained(Shard)
    )
