"""Sources: who may create, find, list, rename and transfer them."""

from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alacarte.api.literals import Role
from registry.access.caller import OPERATOR, Caller
from registry.catalog.sources import create_source, find_source, list_sources, rename_source, transfer_source
from registry.db.clock import now
from registry.db.models.catalog import Source, Task
from registry.db.models.log import LogEntry
from registry.db.models.users import Membership, User
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.ids import new_id
from tests.registry.database_fixtures import sqlite_only
from tests.registry.factories import make_grant, make_prompt, make_shard, make_source, make_task, make_user

STRANGER = Caller(new_id(), "predictor")


def caller_of(user: User, role: Role = "predictor") -> Caller:
    return Caller(user.id, role)


def make_owned(session: Session, name: str = "birds") -> tuple[Source, Caller]:
    owner = make_user(session, role="owner")
    return make_source(session, make_task(session), owner, name), caller_of(owner, "owner")


def forgotten(session: Session, source: Source) -> None:
    source.name, source.erasure_id = None, new_id()
    session.flush()


def actions(session: Session) -> list[str]:
    return list(session.scalars(select(LogEntry.action).order_by(LogEntry.number)))


def test_a_source_without_pictures_belongs_to_its_creator(session: Session) -> None:
    task, owner = make_task(session), make_user(session, role="owner")

    source = create_source(session, caller_of(owner, "owner"), task.id, "birds")

    assert (source.owner_id, source.name, source.task_id) == (owner.id, "birds", task.id)
    assert len(source.key) == 32
    assert source.created_at is not None
    assert actions(session) == ["source.created"]


@sqlite_only
def test_only_owners_and_admins_create_sources(session: Session) -> None:
    task, owner, other = make_task(session), make_user(session), make_user(session)
    group = make_user(session, is_group=True)

    with pytest.raises(Forbidden):
        create_source(session, caller_of(owner), task.id, "birds")
    with pytest.raises(Forbidden):
        create_source(session, caller_of(owner, "owner"), task.id, "birds", other.id)
    with pytest.raises(Invalid):
        create_source(session, OPERATOR, task.id, "birds", group.id)
    with pytest.raises(NotFound):
        create_source(session, OPERATOR, task.id, "birds", new_id())
    with pytest.raises(NotFound):
        create_source(session, OPERATOR, new_id(), "birds")
    assert create_source(session, OPERATOR, task.id, "birds", other.id).owner_id == other.id


def test_a_name_is_free_in_another_task_and_taken_in_the_same(session: Session) -> None:
    task, other = make_task(session), make_task(session)
    first = create_source(session, OPERATOR, task.id, "birds")

    with pytest.raises(Conflict, match="'birds'"):
        create_source(session, OPERATOR, task.id, "birds")
    second = create_source(session, OPERATOR, other.id, "birds")

    assert first.key != second.key
    assert actions(session) == ["source.created", "source.created"]
    forgotten(session, first)
    create_source(session, OPERATOR, task.id, "birds")  # free again at once


@sqlite_only
def test_a_source_is_found_by_id_and_by_name(session: Session) -> None:
    source, owner = make_owned(session, "Vögel")

    for task_id in (None, source.task_id):
        for called in (source.id, str(source.id), "Vögel", "Vo\u0308gel"):
            assert find_source(session, owner, task_id, called) is source
    with pytest.raises(NotFound):
        find_source(session, owner, new_id(), source.id)


@sqlite_only
def test_a_name_in_two_tasks_needs_the_task(session: Session) -> None:
    first = make_source(session, make_task(session), name="birds")
    make_source(session, make_task(session), name="birds")

    with pytest.raises(Conflict, match="name the task"):
        find_source(session, OPERATOR, None, "birds")
    assert find_source(session, OPERATOR, first.task_id, "birds") is first


@pytest.mark.parametrize("called", ["bees", "\0", "", "a" * 5000, "01a1e350-5b27-702b-8104-63d38338c001"])
@sqlite_only
def test_what_is_not_there_and_what_may_not_be_seen_look_alike(session: Session, called: str) -> None:
    source, owner = make_owned(session)

    with pytest.raises(NotFound) as missing:
        find_source(session, owner, None, called)
    with pytest.raises(NotFound) as hidden:
        find_source(session, STRANGER, None, source.id)

    assert str(missing.value).startswith("no source '")
    assert str(hidden.value) == f"no source '{source.id}' that you may see"


def names(session: Session, caller: Caller, task: Task | None = None) -> list[str]:
    return [summary.name for summary in list_sources(session, caller, None if task is None else task.id).items]


def test_everybody_lists_what_they_may_see_and_nothing_else(session: Session) -> None:
    task, owner, member = make_task(session), make_user(session), make_user(session)
    group = make_user(session, is_group=True)
    session.add(Membership(group_id=group.id, member_id=member.id))
    owned = make_source(session, task, owner, "owned")
    shared = make_source(session, task, None, "shared")
    make_source(session, make_task(session), None, "other task")
    forgotten(session, make_source(session, task, owner))
    make_grant(session, member.id, owned.id, "use")
    make_grant(session, group.id, shared.id, "forget")

    assert names(session, caller_of(owner)) == ["owned"]
    assert names(session, caller_of(member)) == ["owned", "shared"]
    assert names(session, OPERATOR) == ["owned", "shared", "other task"]
    assert names(session, OPERATOR, task) == ["owned", "shared"]
    assert names(session, STRANGER) == []


def test_a_list_counts_the_samples_and_shards_of_each_source(session: Session) -> None:
    task = make_task(session)
    full, empty = make_source(session, task, name="full"), make_source(session, task, name="empty")
    make_prompt(session, make_shard(session, full, samples=2))
    make_shard(session, full, samples=3)
    make_shard(session, full).erasure_id = new_id()
    session.flush()

    counted = [(s.id, s.samples, s.shards, s.trained) for s in list_sources(session, OPERATOR).items]

    assert counted == [(full.id, 5, 2, 1), (empty.id, 0, 0, 0)]


@sqlite_only
def test_a_long_list_comes_in_pages(session: Session) -> None:
    task = make_task(session)
    made = [make_source(session, task).id for _ in range(5)]

    listed: list[UUID] = []
    cursor = None
    while True:
        page = list_sources(session, OPERATOR, after=cursor, limit=2)
        listed += [summary.id for summary in page.items]
        cursor = page.next
        if cursor is None:
            break

    assert listed == made


def test_a_source_is_renamed_unless_the_name_is_taken(session: Session) -> None:
    source, owner = make_owned(session)
    session.add(Source(id=new_id(), task_id=source.task_id, name="bees", key=b"k", created_at=now()))

    rename_source(session, owner, source.id, "owls")
    with pytest.raises(Conflict, match="'bees'"):
        rename_source(session, owner, source.id, "bees")
    rename_source(session, owner, source.id, "owls")

    assert find_source(session, owner, None, "owls").id == source.id
    assert actions(session) == ["source.renamed"]


@sqlite_only
def test_renaming_requires_the_right_to_manage(session: Session) -> None:
    source, _ = make_owned(session)
    user = make_user(session)

    with pytest.raises(NotFound):
        rename_source(session, caller_of(user), source.id, "owls")
    make_grant(session, user.id, source.id, "use")
    with pytest.raises(Forbidden):
        rename_source(session, caller_of(user), source.id, "owls")
    make_grant(session, user.id, source.id, "manage")
    assert rename_source(session, caller_of(user), source.id, "owls").name == "owls"


@sqlite_only
def test_only_the_owner_and_admins_transfer_a_source(session: Session) -> None:
    source, owner = make_owned(session)
    heir, manager = make_user(session), make_user(session)
    make_grant(session, manager.id, source.id, "manage")

    with pytest.raises(Forbidden):
        transfer_source(session, caller_of(manager), source.id, manager.id)
    with pytest.raises(Invalid):
        transfer_source(session, owner, source.id, make_user(session, is_group=True).id)
    assert transfer_source(session, owner, source.id, heir.id).owner_id == heir.id
    with pytest.raises(NotFound):
        transfer_source(session, owner, source.id, heir.id)
    assert transfer_source(session, OPERATOR, source.id, manager.id).owner_id == manager.id
    assert actions(session) == ["source.transferred", "source.transferred"]


@sqlite_only
def test_a_source_that_is_being_forgotten_is_hidden_from_everybody(session: Session) -> None:
    source, owner = make_owned(session)
    forgotten(session, source)

    for caller in (owner, OPERATOR):
        with pytest.raises(NotFound):
            find_source(session, caller, None, source.id)
        with pytest.raises(NotFound):
            rename_source(session, caller, source.id, "owls")
        with pytest.raises(NotFound):
            transfer_source(session, caller, source.id, new_id())
