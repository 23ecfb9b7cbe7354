"""Rights to sources: who may see, use, manage and forget one."""

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alacarte.api.literals import Right
from registry.access.caller import OPERATOR, Caller
from registry.access.grants import grant_right, revoke_right
from registry.access.source_rights import is_visible_to, require_right
from registry.access.users import add_member, remove_member
from registry.db.models.catalog import Source
from registry.db.models.users import RIGHTS
from registry.errors import Forbidden, NotFound
from registry.ids import new_id
from tests.registry.factories import make_caller, make_source, make_task, make_user

# What each standing lets do with a source; `None`: not even see it.
STANDINGS: dict[str, set[Right] | None] = {
    "operator": {"manage", "forget"},
    "admin": {"manage", "forget"},
    "owner": {"use", "manage", "forget"},
    "use": {"use"},
    "manage": {"manage"},
    "forget": {"forget"},
    "stranger": None,
    "owner of another": None,
    "nobody": None,
}


@pytest.mark.parametrize("through", ["itself", "a group"])
def test_each_kind_of_caller_has_exactly_its_rights(session: Session, through: str) -> None:
    task = make_task(session)
    owner = make_user(session, role="owner")
    source = make_source(session, task, owner)
    for standing, rights in STANDINGS.items():
        user = make_user(session, role="admin" if standing == "admin" else "owner")
        caller = make_caller(user)
        if standing == "operator":
            caller = OPERATOR
        elif standing == "nobody":
            caller = Caller(None, "predictor")
        elif standing == "owner":
            caller = make_caller(owner)
        elif standing == "owner of another":
            grant_right(session, OPERATOR, user.id, make_source(session, task, user).id, "manage")
        elif standing in RIGHTS:
            holder = user if through == "itself" else make_user(session, is_group=True)
            if holder is not user:
                add_member(session, OPERATOR, holder.id, user.id)
            grant_right(session, OPERATOR, holder.id, source.id, standing)

        listed = source.id in session.scalars(select(Source.id).where(is_visible_to(caller))).all()
        assert listed == (rights is not None), standing
        for right in RIGHTS:
            if rights is None:
                with pytest.raises(NotFound):
                    require_right(session, caller, right, source.id)
            elif right in rights:
                assert require_right(session, caller, right, source.id) is source
            else:
                with pytest.raises(Forbidden, match=right):
                    require_right(session, caller, right, source.id)


def test_an_admin_uses_what_is_granted(session: Session) -> None:
    admin, source = make_user(session, role="admin"), make_source(session, make_task(session))
    grant_right(session, OPERATOR, admin.id, source.id, "use")

    assert require_right(session, make_caller(admin), "use", source.id).id == source.id


def test_a_right_ends_with_its_grant_and_with_the_membership(session: Session) -> None:
    user, group = make_user(session), make_user(session, is_group=True)
    source = make_source(session, make_task(session))
    add_member(session, OPERATOR, group.id, user.id)
    grant_right(session, OPERATOR, group.id, source.id, "use")
    grant_right(session, OPERATOR, user.id, source.id, "forget")
    revoke_right(session, OPERATOR, user.id, source.id, "forget")
    with pytest.raises(Forbidden):
        require_right(session, make_caller(user), "forget", source.id)
    remove_member(session, OPERATOR, group.id, user.id)
    with pytest.raises(NotFound):
        require_right(session, make_caller(user), "use", source.id)


def test_nobody_has_a_right_to_what_is_being_forgotten(session: Session) -> None:
    owner = make_user(session, role="owner")
    source = make_source(session, make_task(session), owner)
    source.name, source.erasure_id = None, new_id()
    session.flush()
    for caller in (OPERATOR, make_caller(owner)):
        assert session.scalars(select(Source.id).where(is_visible_to(caller))).all() == []
        for right in RIGHTS:
            with pytest.raises(NotFound):
                require_right(session, caller, right, source.id)


def test_a_source_without_rights_and_a_missing_one_give_the_same_error(session: Session) -> None:
    source, stranger = make_source(session, make_task(session)), make_caller(make_user(session))
    messages = set()
    for source_id in (source.id, new_id()):
        with pytest.raises(NotFound) as refusal:
            require_right(session, stranger, "use", source_id)
        messages.add(str(refusal.value).replace(str(source_id), "ID"))

    assert len(messages) == 1
