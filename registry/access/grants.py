"""Grants: one right of one user or group to one source, given and taken back by those who may."""

from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Right
from registry.access.caller import Caller
from registry.access.rights import is_visible_to, principal_ids, require_any_right
from registry.access.users import require_user
from registry.db.clock import now
from registry.db.locks import lock_source
from registry.db.models.catalog import Source
from registry.db.models.users import RIGHTS, Grant
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Forbidden, Invalid, NotFound
from registry.ids import new_id
from registry.log import chain


def grant_right(session: Session, caller: Caller, user_id: UUID, source_id: UUID, right: Right) -> Grant:
    """Gives a user or group a right to a source; one that they have already stays as it is."""
    source = _source_to_grant(session, caller, source_id, right)
    user = require_user(session, user_id)
    if (held := _held(session, user_id, source_id, right)) is not None:
        return held
    given = Grant(
        id=new_id(),
        user_id=user.id,
        source_id=source.id,
        right=right,
        granted_by=caller.user_id,
        granted_at=now(),
    )
    session.add(given)
    session.flush()
    session.refresh(given)
    chain.append_entry(
        session, caller.user_id, "grant.given", grant=given.id, user=user_id, source=source_id, right=right
    )
    return given


def revoke_right(session: Session, caller: Caller, user_id: UUID, source_id: UUID, right: Right) -> None:
    """Takes a right back; what the user has by ownership or through a group is not touched."""
    _source_to_grant(session, caller, source_id, right)
    held = _held(session, user_id, source_id, right)
    if held is None:
        raise NotFound("grant", f"{right} of {source_id} to {user_id}")
    session.delete(held)
    chain.append_entry(
        session, caller.user_id, "grant.revoked", grant=held.id, user=user_id, source=source_id, right=right
    )


def list_grants(
    session: Session,
    caller: Caller,
    source_id: UUID | None = None,
    user_id: UUID | None = None,
    after: str | None = None,
    limit: int = DEFAULT_LIMIT,
    *,
    task_id: UUID | None = None,
) -> Page[Grant]:
    """The grants to sources that the caller owns or manages, and the caller's own, the oldest first."""
    statement = select(Grant)
    if caller.is_admin or caller.user_id is None:
        statement = statement.where(Grant.source_id.in_(select(Source.id).where(is_visible_to(caller))))
    else:
        managed = select(Source.id).where(is_visible_to(caller, ["manage"]))
        held = Grant.user_id.in_(principal_ids(caller.user_id))
        there = select(Source.id).where(Source.erasure_id.is_(None))
        statement = statement.where(or_(Grant.source_id.in_(managed), held & Grant.source_id.in_(there)))
    if source_id is not None:
        statement = statement.where(Grant.source_id == source_id)
    if user_id is not None:
        statement = statement.where(Grant.user_id == user_id)
    if task_id is not None:
        statement = statement.where(Grant.source_id.in_(select(Source.id).where(Source.task_id == task_id)))
    return read_page(session, statement, Grant.id, after=after, limit=limit)


def _source_to_grant(session: Session, caller: Caller, source_id: UUID, right: Right) -> Source:
    """The source, locked, if the caller may hand out this right to it."""
    if right not in RIGHTS:
        raise Invalid(f"the right is one of {', '.join(RIGHTS)}")
    source = lock_source(session, source_id)
    rights = require_any_right(session, caller, source)
    if caller.is_admin or (caller.user_id is not None and source.owner_id == caller.user_id):
        return source
    if "manage" not in rights:
        raise Forbidden("who may use this source is for those who manage it to say: ask its owner or an admin")
    if right != "use":
        raise Forbidden(f"only its owner or an admin hands out the right to {right} this source: ask one")
    return source


def _held(session: Session, user_id: UUID, source_id: UUID, right: Right) -> Grant | None:
    is_it = (Grant.user_id == user_id, Grant.source_id == source_id, Grant.right == right)
    return session.scalars(select(Grant).where(*is_it)).one_or_none()
