"""Grants: who may grant and revoke which right, and who sees it."""

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Right
from registry.access.caller import OPERATOR, Caller
from registry.access.grants import grant_right, list_grants, revoke_right
from registry.access.users import add_member, remove_user
from registry.db.database import Database
from registry.db.models.log import LogEntry
from registry.db.models.users import RIGHTS
from registry.errors import DomainError, Forbidden, Invalid, NotFound
from registry.ids import new_id
from tests.registry.factories import make_caller, make_source, make_task, make_user, run_at_once


def test_a_repeated_grant_returns_the_first(session: Session) -> None:
    user, source = make_user(session), make_source(session, make_task(session))
    first = grant_right(session, OPERATOR, user.id, source.id, "use")
    lines = session.scalar(select(func.count()).select_from(LogEntry))
    again = grant_right(session, OPERATOR, user.id, source.id, "use")

    assert again.id == first.id
    assert first.granted_at.tzinfo is not None
    assert session.scalar(select(func.count()).select_from(LogEntry)) == lines


def test_a_revoked_right_is_gone(session: Session) -> None:
    user, source = make_user(session), make_source(session, make_task(session))
    grant_right(session, OPERATOR, user.id, source.id, "use")
    grant_right(session, OPERATOR, user.id, source.id, "forget")
    revoke_right(session, OPERATOR, user.id, source.id, "use")

    assert [given.right for given in list_grants(session, OPERATOR).items] == ["forget"]
    with pytest.raises(NotFound):
        revoke_right(session, OPERATOR, user.id, source.id, "use")


# Whom the right to what lets hand out which rights; everybody else is refused, as one who sees the source or not.
MAY_HAND_OUT: dict[str, set[Right]] = {
    "admin": set(RIGHTS),
    "owner": set(RIGHTS),
    "manage": {"use"},
    "forget": set(),
    "use": set(),
}


@pytest.mark.parametrize("standing", MAY_HAND_OUT)
def test_only_those_who_may_grant_a_right_grant_it(session: Session, standing: str) -> None:
    giver = make_user(session, role="admin" if standing == "admin" else "owner")
    source = make_source(session, make_task(session), giver if standing == "owner" else None)
    if standing in RIGHTS:
        grant_right(session, OPERATOR, giver.id, source.id, standing)
    for right in RIGHTS:
        user = make_user(session)
        if right in MAY_HAND_OUT[standing]:
            given = grant_right(session, make_caller(giver), user.id, source.id, right)
            assert given.granted_by == giver.id
            revoke_right(session, make_caller(giver), user.id, source.id, right)
        else:
            with pytest.raises(Forbidden):
                grant_right(session, make_caller(giver), user.id, source.id, right)
            grant_right(session, OPERATOR, user.id, source.id, right)
            with pytest.raises(Forbidden):
                revoke_right(session, make_caller(giver), user.id, source.id, right)


def test_a_hidden_source_and_a_missing_one_give_the_same_error(session: Session) -> None:
    stranger, owner = make_user(session, role="owner"), make_user(session, role="owner")
    source = make_source(session, make_task(session), owner)
    messages = []
    for source_id in (source.id, new_id()):
        for act in (grant_right, revoke_right):
            with pytest.raises(NotFound) as refusal:
                act(session, make_caller(stranger), stranger.id, source_id, "use")
            messages.append(str(refusal.value).replace(str(source_id), "ID"))

    assert len(set(messages)) == 1


def test_a_source_that_is_being_forgotten_has_no_grants_any_more(session: Session) -> None:
    user, source = make_user(session), make_source(session, make_task(session))
    grant_right(session, OPERATOR, user.id, source.id, "use")
    source.name, source.erasure_id = None, new_id()
    session.flush()

    for caller in (OPERATOR, make_caller(user)):
        assert list_grants(session, caller).items == ()
    with pytest.raises(NotFound):
        grant_right(session, OPERATOR, user.id, source.id, "use")


def test_an_unknown_right_or_user_is_refused(session: Session) -> None:
    user, source = make_user(session), make_source(session, make_task(session))
    with pytest.raises(Invalid, match="use, manage, forget"):
        grant_right(session, OPERATOR, user.id, source.id, "own")  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="user"):
        grant_right(session, OPERATOR, new_id(), source.id, "use")


def test_callers_see_the_grants_of_what_they_own_or_manage_and_their_own(session: Session) -> None:
    task = make_task(session)
    owner, manager, reader, member, stranger = (make_user(session, role="owner") for _ in range(5))
    group = make_user(session, is_group=True)
    add_member(session, OPERATOR, group.id, member.id)
    source, other = make_source(session, task, owner), make_source(session, task)
    managing = grant_right(session, OPERATOR, manager.id, source.id, "manage").id
    reading = grant_right(session, OPERATOR, reader.id, source.id, "use").id
    grouped = grant_right(session, OPERATOR, group.id, source.id, "use").id
    foreign = grant_right(session, OPERATOR, stranger.id, other.id, "forget").id
    listed = {
        name: {given.id for given in list_grants(session, caller).items}
        for name, caller in {
            "operator": OPERATOR,
            "owner": make_caller(owner),
            "manager": make_caller(manager),
            "reader": make_caller(reader),
            "member": make_caller(member),
            "stranger": make_caller(stranger),
            "nobody": Caller(None, "predictor"),
        }.items()
    }

    assert listed == {
        "operator": {managing, reading, grouped, foreign},
        "owner": {managing, reading, grouped},
        "manager": {managing, reading, grouped},
        "reader": {reading},
        "member": {grouped},
        "stranger": {foreign},
        "nobody": set(),
    }
    assert [given.id for given in list_grants(session, OPERATOR, source.id, reader.id).items] == [reading]
    assert list_grants(session, make_caller(reader), other.id).items == ()


def test_granting_to_a_user_who_is_being_removed_never_deadlocks(database: Database) -> None:
    def attempt(name: str, act: Callable[..., object], *arguments: object) -> str:
        try:
            with database.write_transaction() as session:
                act(session, OPERATOR, *arguments)
        except DomainError as error:
            return f"{name} {type(error).__name__}"
        return f"{name} done"

    for _ in range(15):
        with database.write_transaction() as session:
            user = make_user(session)
            source = make_source(session, make_task(session), user)
        given, removed = run_at_once(
            partial(attempt, "give", grant_right, user.id, source.id, "use"),
            partial(attempt, "remove", remove_user, user.id),
        )
        assert given in ("give done", "give NotFound")
        assert removed == "remove done"

    with database.read_transaction() as session:
        assert list_grants(session, OPERATOR).items == ()
