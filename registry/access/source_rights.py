"""Rights to manage and forget sources, read from SQL each time and never cached. Which prompts a caller may use for a
prediction is in `usable_prompts`."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import ColumnElement, CompoundSelect, literal, or_, select, true, union_all
from sqlalchemy.orm import Session

from alacarte.api.literals import Right
from registry.access.caller import Caller
from registry.db.locks import lock_source
from registry.db.models.catalog import Source
from registry.db.models.users import RIGHTS, Grant, Membership
from registry.errors import Forbidden, NotFound

ADMIN_RIGHTS: frozenset[Right] = frozenset({"manage", "forget"})  # to use a source, admins too need a grant


def require_right(session: Session, caller: Caller, right: Right, source_id: UUID) -> Source:
    """Return the source, locked; NotFound if the caller may not see it, Forbidden if they see it without this right."""
    source = lock_source(session, source_id)
    if right not in require_any_right(session, caller, source):
        raise Forbidden(f"you may not {right} this source: ask its owner or an admin for the right")
    return source


def require_any_right(session: Session, caller: Caller, source: Source) -> frozenset[Right]:
    """Return all rights of the caller to a source; NotFound if there are none."""
    rights = set(ADMIN_RIGHTS if caller.is_admin else ())
    if caller.user_id is not None:
        if source.owner_id == caller.user_id:
            rights.update(RIGHTS)
        granted = select(Grant.right).where(
            Grant.source_id == source.id, Grant.user_id.in_(principal_ids(caller.user_id))
        )
        rights.update(right for right in RIGHTS if right in session.scalars(granted).all())
    if not rights:
        raise NotFound("source", source.id)
    return frozenset(rights)


def is_visible_to(caller: Caller, rights: Collection[Right] = RIGHTS) -> ColumnElement[bool]:
    """Return the condition that the caller may see a source: as an admin, as its owner, or by one of these rights."""
    return Source.erasure_id.is_(None) & _has_access(caller, rights)


def principal_ids(user_id: UUID) -> CompoundSelect[UUID]:
    """Select the ids whose grants count for a user: the user's own and those of the user's groups."""
    groups = select(Membership.group_id).where(Membership.member_id == user_id)
    return union_all(select(literal(user_id)), groups)


def _has_access(caller: Caller, rights: Collection[Right]) -> ColumnElement[bool]:
    if caller.is_admin:
        return true()
    if caller.user_id is None:
        return Source.id.is_(None)  # no user, no rights
    granted = select(Grant.source_id).where(
        Grant.user_id.in_(principal_ids(caller.user_id)), Grant.right.in_(tuple(rights))
    )
    return or_(Source.owner_id == caller.user_id, Source.id.in_(granted))
