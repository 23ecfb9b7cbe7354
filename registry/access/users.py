"""Users and groups: who there is, and who is in which group. What they may use is the business of grants."""

from uuid import UUID

from sqlalchemy import ColumnElement, delete, or_, select, true
from sqlalchemy.orm import Session

from alacarte.api.literals import Role
from registry.access.caller import Caller, require_admin
from registry.catalog.names import parse_name_or_id, validate_name
from registry.db.clock import now
from registry.db.insert import insert_unique
from registry.db.models.catalog import Source
from registry.db.models.users import ROLES, Grant, Membership, User
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.ids import new_id
from registry.log import chain


def create_user(
    session: Session, caller: Caller, name: str, role: Role = "predictor", *, is_group: bool = False
) -> User:
    """A new user, or a new group, which holds grants for its members and has no tokens and no role of its own."""
    require_admin(caller)
    name = validate_name("user", name)
    if role not in ROLES:
        raise Invalid(f"the role of a user is one of {', '.join(ROLES)}")
    if is_group and role != "predictor":
        raise Invalid("a group hands on grants, not a role: leave the role out")
    user = User(id=new_id(), name=name, role=role, is_group=is_group, created_at=now())
    insert_unique(session, user, f"there is a user {name!r} already: choose another name")
    chain.append_entry(session, caller.user_id, "user.created", user=user.id, role=role, is_group=is_group)
    return user


def find_user(session: Session, caller: Caller, name_or_id: str | UUID) -> User:
    """The user or group of that name or id; callers who are no admins find themselves and their groups."""
    wanted = parse_name_or_id("user", name_or_id)
    is_it = User.id == wanted if isinstance(wanted, UUID) else User.name == wanted
    user = session.scalars(select(User).where(is_it, _may_be_seen_by(caller))).one_or_none()
    if user is None:
        raise NotFound("user", name_or_id)
    return user


def list_users(session: Session, caller: Caller, after: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[User]:
    """The users and groups that the caller may see, the oldest first."""
    return read_page(session, select(User).where(_may_be_seen_by(caller)), User.id, after=after, limit=limit)


def remove_user(session: Session, caller: Caller, user_id: UUID) -> None:
    """Removes a user with their tokens, grants and memberships; their sources stay, without an owner."""
    require_admin(caller)
    # Sources before users, as everywhere: a grant that is just being made holds its source and waits for its user.
    granted = select(Grant.source_id).where(Grant.user_id == user_id)
    touched = select(Source.id).where(or_(Source.owner_id == user_id, Source.id.in_(granted)))
    session.execute(touched.order_by(Source.id).with_for_update()).all()
    # All admins, so that two who remove each other at once cannot both succeed.
    keep = or_(User.id == user_id, User.role == "admin")
    locked = session.scalars(select(User).where(keep).order_by(User.id).with_for_update()).all()
    user = next((user for user in locked if user.id == user_id), None)
    if user is None:
        raise NotFound("user", user_id)
    if user.role == "admin" and len(locked) == 1:
        raise Conflict("this is the last admin, who must stay: make another admin first")
    session.execute(delete(User).where(User.id == user_id))
    chain.append_entry(session, caller.user_id, "user.removed", user=user_id)


def add_member(session: Session, caller: Caller, group_id: UUID, member_id: UUID) -> None:
    """Lets a user have what the group is granted; nothing happens if they have it already."""
    group, member = _group_and_member(session, caller, group_id, member_id)
    if member.is_group:
        raise Invalid("a group cannot be in a group: add its members one by one")
    if session.get(Membership, (group.id, member.id)) is None:
        session.add(Membership(group_id=group.id, member_id=member.id))
        chain.append_entry(session, caller.user_id, "member.added", group=group.id, user=member.id)


def remove_member(session: Session, caller: Caller, group_id: UUID, member_id: UUID) -> None:
    """Ends what a user has through the group."""
    group, member = _group_and_member(session, caller, group_id, member_id)
    membership = session.get(Membership, (group.id, member.id))
    if membership is None:
        raise NotFound("member", member_id)
    session.delete(membership)
    chain.append_entry(session, caller.user_id, "member.removed", group=group.id, user=member.id)


def list_members(
    session: Session, caller: Caller, group_id: UUID, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[User]:
    """The members of a group, for admins only: a member knows of the group, not of the others in it."""
    group = find_user(session, caller, group_id)
    if not caller.is_admin:
        raise Forbidden("who is in a group is for admins to see: ask one")
    statement = select(User).join(Membership, Membership.member_id == User.id).where(Membership.group_id == group.id)
    return read_page(session, statement, User.id, after=after, limit=limit)


def list_groups(
    session: Session, caller: Caller, user_id: UUID, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[User]:
    """The groups that a user is in, for admins and for the user."""
    user = find_user(session, caller, user_id)
    statement = select(User).join(Membership, Membership.group_id == User.id).where(Membership.member_id == user.id)
    return read_page(session, statement, User.id, after=after, limit=limit)


def require_user(session: Session, user_id: UUID) -> User:
    """The user, who cannot be removed before the transaction ends."""
    statement = select(User).where(User.id == user_id).with_for_update(read=True, key_share=True)
    user = session.scalars(statement, execution_options={"populate_existing": True}).one_or_none()
    if user is None:
        raise NotFound("user", user_id)
    return user


def _may_be_seen_by(caller: Caller) -> ColumnElement[bool]:
    if caller.is_admin:
        return true()
    groups = select(Membership.group_id).where(Membership.member_id == caller.user_id)
    return or_(User.id == caller.user_id, User.id.in_(groups))


def _group_and_member(session: Session, caller: Caller, group_id: UUID, member_id: UUID) -> tuple[User, User]:
    """Both, locked, so that the members of a group change one after the other."""
    require_admin(caller)
    # Both in the order of their ids, as `remove_user` does: whoever keeps it never waits in a circle.
    both = select(User).where(User.id.in_([group_id, member_id])).order_by(User.id).with_for_update(key_share=True)
    found = {user.id: user for user in session.scalars(both, execution_options={"populate_existing": True})}
    if group_id not in found:
        raise NotFound("group", group_id)
    if not found[group_id].is_group:
        raise Invalid("this user is no group: only groups have members")
    if member_id not in found:
        raise NotFound("user", member_id)
    return found[group_id], found[member_id]
