"""Users, groups and memberships: create, find, list, remove. What they may use is in `grants`."""

from uuid import UUID

from sqlalchemy import ColumnElement, delete, or_, select, true
from sqlalchemy.orm import Session

from alacarte.api.literals import Role
from registry.access.caller import Caller, require_admin
from registry.catalog.names import parse_name_or_id, validate_name
from registry.db.clock import now
from registry.db.database import insert_unique
from registry.db.models.catalog import Source
from registry.db.models.users import ROLES, Grant, Membership, User
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.ids import new_id
from registry.log import chain


def create_user(
    session: Session, caller: Caller, name: str, role: Role = "predictor", *, is_group: bool = False
) -> User:
    """Create a user, or a group, which holds grants for its members and has no tokens and no role."""
    require_admin(caller)
    name = validate_name("user", name)
    if role not in ROLES:
        raise Invalid(f"the role of a user is one of {', '.join(ROLES)}, not {role!r}")
    if is_group and role != "predictor":
        raise Invalid("a group has no role: leave the role out")
    user = User(id=new_id(), name=name, role=role, is_group=is_group, created_at=now())
    insert_unique(session, user, f"user {name!r} already exists: choose another name")
    chain.append_entry(session, caller.user_id, "user.created", user=user.id, role=role, is_group=is_group)
    return user


def find_user(session: Session, caller: Caller, name_or_id: str | UUID) -> User:
    """Find a user or group by name or id; only admins find others than themselves and their groups."""
    value = parse_name_or_id("user", name_or_id)
    is_match = User.id == value if isinstance(value, UUID) else User.name == value
    user = session.scalars(select(User).where(is_match, _is_visible_to(caller))).one_or_none()
    if user is None:
        raise NotFound("user", name_or_id)
    return user


def list_users(session: Session, caller: Caller, after: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[User]:
    """List the users and groups that the caller may see, oldest first."""
    return read_page(session, select(User).where(_is_visible_to(caller)), User.id, after=after, limit=limit)


def remove_user(session: Session, caller: Caller, user_id: UUID) -> None:
    """Remove a user with their tokens, grants and memberships; their sources stay, without an owner."""
    require_admin(caller)
    # Sources before users (see registry.db.locks): a grant in progress has locked its source and waits for its user.
    granted = select(Grant.source_id).where(Grant.user_id == user_id)
    affected = select(Source.id).where(or_(Source.owner_id == user_id, Source.id.in_(granted)))
    session.execute(affected.order_by(Source.id).with_for_update()).all()
    # Lock all admins, so that two admins who remove each other at once cannot both succeed.
    is_locked = or_(User.id == user_id, User.role == "admin")
    locked = session.scalars(select(User).where(is_locked).order_by(User.id).with_for_update()).all()
    user = next((user for user in locked if user.id == user_id), None)
    if user is None:
        raise NotFound("user", user_id)
    if user.role == "admin" and len(locked) == 1:
        raise Conflict("this is the last admin and cannot be removed: create another admin first")
    session.execute(delete(User).where(User.id == user_id))
    chain.append_entry(session, caller.user_id, "user.removed", user=user_id)


def add_member(session: Session, caller: Caller, group_id: UUID, member_id: UUID) -> None:
    """Add a user to a group; a membership that exists stays."""
    group, member = _lock_group_and_member(session, caller, group_id, member_id)
    if member.is_group:
        raise Invalid("a group cannot be a member of a group: add its members one by one")
    if session.get(Membership, (group.id, member.id)) is None:
        session.add(Membership(group_id=group.id, member_id=member.id))
        chain.append_entry(session, caller.user_id, "member.added", group=group.id, user=member.id)


def remove_member(session: Session, caller: Caller, group_id: UUID, member_id: UUID) -> None:
    """Remove a user from a group, and so what they have through it."""
    group, member = _lock_group_and_member(session, caller, group_id, member_id)
    membership = session.get(Membership, (group.id, member.id))
    if membership is None:
        raise NotFound("member", member_id)
    session.delete(membership)
    chain.append_entry(session, caller.user_id, "member.removed", group=group.id, user=member.id)


def list_members(
    session: Session, caller: Caller, group_id: UUID, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[User]:
    """List the members of a group, for admins only: members do not see each other."""
    group = find_user(session, caller, group_id)
    if not caller.is_admin:
        raise Forbidden("only admins may list the members of a group: ask an admin")
    statement = select(User).join(Membership, Membership.member_id == User.id).where(Membership.group_id == group.id)
    return read_page(session, statement, User.id, after=after, limit=limit)


def list_groups(
    session: Session, caller: Caller, user_id: UUID, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[User]:
    """List the groups of a user, for admins and for the user."""
    user = find_user(session, caller, user_id)
    statement = select(User).join(Membership, Membership.group_id == User.id).where(Membership.member_id == user.id)
    return read_page(session, statement, User.id, after=after, limit=limit)


def require_user(session: Session, user_id: UUID) -> User:
    """Return the user, who cannot be removed before the transaction ends; NotFound if there is none."""
    statement = select(User).where(User.id == user_id).with_for_update(read=True, key_share=True)
    user = session.scalars(statement, execution_options={"populate_existing": True}).one_or_none()
    if user is None:
        raise NotFound("user", user_id)
    return user


def _is_visible_to(caller: Caller) -> ColumnElement[bool]:
    if caller.is_admin:
        return true()
    groups = select(Membership.group_id).where(Membership.member_id == caller.user_id)
    return or_(User.id == caller.user_id, User.id.in_(groups))


def _lock_group_and_member(session: Session, caller: Caller, group_id: UUID, member_id: UUID) -> tuple[User, User]:
    """Return both, locked, so that changes to a group's members are serialised."""
    require_admin(caller)
    # In the order of their ids, as in `remove_user`, to avoid deadlocks.
    both = select(User).where(User.id.in_([group_id, member_id])).order_by(User.id).with_for_update(key_share=True)
    found = {user.id: user for user in session.scalars(both, execution_options={"populate_existing": True})}
    if group_id not in found:
        raise NotFound("group", group_id)
    if not found[group_id].is_group:
        raise Invalid("this user is not a group: only groups have members")
    if member_id not in found:
        raise NotFound("user", member_id)
    return found[group_id], found[member_id]
