"""Grants: give a user or group one right to one source, revoke it, and list grants."""

from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Right
from registry.access.caller import Caller
from registry.access.source_rights import is_visible_to, principal_ids, require_any_right
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
    """Grant a right to a source; an existing grant is returned unchanged."""
    source = _lock_grantable_source(session, caller, source_id, right)
    user = require_user(session, user_id)
    if (existing := _find_grant(session, user_id, source_id, right)) is not None:
        return existing
    grant = Grant(
        id=new_id(),
        user_id=user.id,
        source_id=source.id,
        right=right,
        granted_by=caller.user_id,
        granted_at=now(),
    )
    session.add(grant)
    session.flush()
    session.refresh(grant)
    chain.append_entry(
        session, caller.user_id, "grant.given", grant=grant.id, user=user_id, source=source_id, right=right
    )
    return grant


def revoke_right(session: Session, caller: Caller, user_id: UUID, source_id: UUID, right: Right) -> None:
    """Revoke a right; what the user has as owner or through a group stays."""
    _lock_grantable_source(session, caller, source_id, right)
    grant = _find_grant(session, user_id, source_id, right)
    if grant is None:
        raise NotFound("grant", f"{right} of {source_id} to {user_id}")
    session.delete(grant)
    chain.append_entry(
        session, caller.user_id, "grant.revoked", grant=grant.id, user=user_id, source=source_id, right=right
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
    """List the grants to sources that the caller owns or manages, and the caller's own, oldest first."""
    statement = select(Grant)
    if caller.is_admin or caller.user_id is None:
        statement = statement.where(Grant.source_id.in_(select(Source.id).where(is_visible_to(caller))))
    else:
        managed = select(Source.id).where(is_visible_to(caller, ["manage"]))
        is_own = Grant.user_id.in_(principal_ids(caller.user_id))
        existing = select(Source.id).where(Source.erasure_id.is_(None))
        statement = statement.where(or_(Grant.source_id.in_(managed), is_own & Grant.source_id.in_(existing)))
    if source_id is not None:
        statement = statement.where(Grant.source_id == source_id)
    if user_id is not None:
        statement = statement.where(Grant.user_id == user_id)
    if task_id is not None:
        statement = statement.where(Grant.source_id.in_(select(Source.id).where(Source.task_id == task_id)))
    return read_page(session, statement, Grant.id, after=after, limit=limit)


def _lock_grantable_source(session: Session, caller: Caller, source_id: UUID, right: Right) -> Source:
    """Return the source, locked, if the caller may grant this right to it."""
    if right not in RIGHTS:
        raise Invalid(f"the right is one of {', '.join(RIGHTS)}, not {right!r}")
    source = lock_source(session, source_id)
    rights = require_any_right(session, caller, source)
    if caller.is_admin or (caller.user_id is not None and source.owner_id == caller.user_id):
        return source
    if "manage" not in rights:
        raise Forbidden("granting rights to this source requires the right to manage it: ask its owner or an admin")
    if right != "use":
        raise Forbidden(f"only the owner or an admin may grant the right to {right} this source: ask one of them")
    return source


def _find_grant(session: Session, user_id: UUID, source_id: UUID, right: Right) -> Grant | None:
    statement = select(Grant).where(Grant.user_id == user_id, Grant.source_id == source_id, Grant.right == right)
    return session.scalars(statement).one_or_none()
