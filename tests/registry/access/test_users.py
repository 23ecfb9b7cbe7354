"""Users and groups: admins create and remove them; everyone else sees themselves and their groups."""

from functools import partial

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR, Caller
from registry.access.grants import grant_right
from registry.access.tokens import issue_token
from registry.access.users import (
    add_member,
    create_user,
    find_user,
    list_groups,
    list_members,
    list_users,
    remove_member,
    remove_user,
)
from registry.db.database import Database
from registry.db.models.catalog import Source
from registry.db.models.log import LogEntry
from registry.db.models.users import Grant, Membership, Token, User
from registry.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from registry.ids import new_id
from tests.registry.factories import make_caller, make_source, make_task, make_user, run_at_once


def count_of(session: Session, table: type[Grant | Token | Membership]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_new_user_is_found_by_name_and_by_id(database: Database) -> None:
    with database.write_transaction() as session:
        made = create_user(session, OPERATOR, "Zoe\u0308", "owner")
    with database.read_transaction() as session:
        assert find_user(session, OPERATOR, "Zo\u00eb").id == made.id
        assert find_user(session, OPERATOR, str(made.id)).name == "Zo\u00eb"
        assert find_user(session, OPERATOR, made.id).role == "owner"
    assert made.created_at.tzinfo is not None


def test_a_name_that_is_taken_is_a_conflict_and_leaves_the_transaction_whole(database: Database) -> None:
    with database.write_transaction() as session:
        create_user(session, OPERATOR, "ana")
        with pytest.raises(Conflict, match="choose another name"):
            create_user(session, OPERATOR, "ana")
        create_user(session, OPERATOR, "Ana")
    with database.read_transaction() as session:
        assert {user.name for user in list_users(session, OPERATOR).items} == {"ana", "Ana"}


def test_an_unknown_role_or_a_group_with_a_role_is_refused() -> None:
    with pytest.raises(Invalid, match="admin, owner, predictor"):
        create_user(Session(), OPERATOR, "ana", "king")  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        create_user(Session(), OPERATOR, "team", "admin", is_group=True)


def test_only_admins_change_users(session: Session) -> None:
    for role in ("owner", "predictor"):
        user = make_user(session, role=role)
        group = make_user(session, is_group=True)
        caller = make_caller(user)
        with pytest.raises(Forbidden):
            create_user(session, caller, "x")
        with pytest.raises(Forbidden):
            remove_user(session, caller, user.id)
        for act in (add_member, remove_member):
            with pytest.raises(Forbidden):
                act(session, caller, group.id, user.id)


def test_a_user_sees_themselves_and_their_groups_and_nobody_else(session: Session) -> None:
    ana, other = make_user(session, "ana"), make_user(session, "other")
    mine, foreign = make_user(session, "mine", is_group=True), make_user(session, "foreign", is_group=True)
    add_member(session, OPERATOR, mine.id, ana.id)
    add_member(session, OPERATOR, mine.id, other.id)
    add_member(session, OPERATOR, foreign.id, other.id)
    caller = make_caller(ana)

    assert {user.name for user in list_users(session, caller).items} == {"ana", "mine"}
    assert list_users(session, Caller(None, "predictor")).items == ()
    assert find_user(session, caller, "mine").id == mine.id
    assert [group.name for group in list_groups(session, caller, ana.id).items] == ["mine"]
    for hidden in (other, foreign):
        for unseen in (hidden.name, hidden.id):
            with pytest.raises(NotFound):
                find_user(session, caller, unseen)
    with pytest.raises(NotFound):
        list_groups(session, caller, other.id)
    with pytest.raises(NotFound):
        list_members(session, caller, foreign.id)
    with pytest.raises(Forbidden):
        list_members(session, caller, mine.id)
    assert {user.name for user in list_members(session, OPERATOR, mine.id).items} == {"ana", "other"}


def test_what_a_removed_user_had_is_gone_and_their_sources_stay(database: Database) -> None:
    with database.write_transaction() as session:
        ana, group = make_user(session, role="owner"), make_user(session, is_group=True)
        source = make_source(session, make_task(session), ana)
        foreign = make_source(session, make_task(session))
        add_member(session, OPERATOR, group.id, ana.id)
        grant_right(session, OPERATOR, ana.id, foreign.id, "use")
        issue_token(session, OPERATOR, ana.id)
    with database.write_transaction() as session:
        remove_user(session, OPERATOR, ana.id)
    with database.read_transaction() as session:
        assert [count_of(session, table) for table in (Grant, Token, Membership)] == [0, 0, 0]
        assert session.get_one(Source, source.id).owner_id is None
        with pytest.raises(NotFound):
            find_user(session, OPERATOR, ana.id)


def test_a_removed_group_takes_its_grants_along(session: Session) -> None:
    ana, group = make_user(session), make_user(session, is_group=True)
    add_member(session, OPERATOR, group.id, ana.id)
    grant_right(session, OPERATOR, group.id, make_source(session, make_task(session)).id, "use")
    remove_user(session, OPERATOR, group.id)

    assert [count_of(session, table) for table in (Grant, Membership)] == [0, 0]
    assert find_user(session, OPERATOR, ana.id) is ana


def test_the_last_admin_stays(session: Session) -> None:
    first, second = make_user(session, role="admin"), make_user(session, role="admin")
    remove_user(session, OPERATOR, first.id)
    with pytest.raises(NotFound):
        remove_user(session, OPERATOR, first.id)
    with pytest.raises(Conflict, match="create another admin first"):
        remove_user(session, OPERATOR, second.id)


def test_of_two_admins_who_remove_each_other_at_once_one_stays(database: Database) -> None:
    with database.write_transaction() as session:
        one, other = make_user(session, role="admin"), make_user(session, role="admin")

    def remove(caller: User, other: User) -> type[DomainError] | None:
        try:
            with database.write_transaction() as session:
                remove_user(session, make_caller(caller), other.id)
        except DomainError as error:
            return type(error)
        return None

    outcomes = run_at_once(partial(remove, one, other), partial(remove, other, one))

    assert outcomes in ([None, Conflict], [Conflict, None])
    with database.read_transaction() as session:
        assert len(list_users(session, OPERATOR).items) == 1


def test_groups_do_not_nest_and_users_have_no_members(session: Session) -> None:
    user, group, inner = make_user(session), make_user(session, is_group=True), make_user(session, is_group=True)
    with pytest.raises(Invalid, match="group cannot be a member of a group"):
        add_member(session, OPERATOR, group.id, inner.id)
    with pytest.raises(Invalid, match="only groups have members"):
        add_member(session, OPERATOR, user.id, user.id)
    with pytest.raises(NotFound):
        add_member(session, OPERATOR, new_id(), user.id)
    with pytest.raises(NotFound):
        add_member(session, OPERATOR, group.id, new_id())
    with pytest.raises(NotFound):
        remove_member(session, OPERATOR, group.id, user.id)


def test_adding_a_member_twice_is_adding_them_once(session: Session) -> None:
    user, group = make_user(session), make_user(session, is_group=True)
    add_member(session, OPERATOR, group.id, user.id)
    lines = session.scalar(select(func.count()).select_from(LogEntry))
    add_member(session, OPERATOR, group.id, user.id)

    assert count_of(session, Membership) == 1
    assert session.scalar(select(func.count()).select_from(LogEntry)) == lines


def test_the_log_names_the_actor_by_id_and_holds_no_names(session: Session) -> None:
    admin = make_user(session, role="admin")
    made = create_user(session, make_caller(admin), "a name to hide")
    remove_user(session, make_caller(admin), made.id)
    lines = session.scalars(select(LogEntry).order_by(LogEntry.number)).all()

    assert [(line.action, line.actor, line.subject["user"]) for line in lines] == [
        ("user.created", admin.id, str(made.id)),
        ("user.removed", admin.id, str(made.id)),
    ]
    assert "a name to hide" not in str([line.subject for line in lines])
