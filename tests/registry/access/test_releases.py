"""Releases pin the current prompts, do not change when prompts are added, and list what erasures removed."""

import threading
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.catalog.releases import find_release, list_releases, pin_release, read_release, remove_release
from registry.db.clock import now
from registry.db.database import Database
from registry.db.models.prompts import ReleaseLoss, ReleasePrompt
from registry.errors import Conflict, Forbidden, NotFound
from registry.ids import new_id
from tests.registry.factories import make_caller, make_prompt, make_shard, make_source, make_task, make_user


def pins_of(session: Session, release: UUID) -> list[UUID]:
    """All that is pinned, whoever may see it."""
    return list(session.scalars(select(ReleasePrompt.prompt_id).where(ReleasePrompt.release_id == release)))


def test_a_release_pins_the_prompts_of_its_task_and_no_later_ones(session: Session) -> None:
    task, other = make_task(session), make_task(session)
    source = make_source(session, task)
    shards = [make_shard(session, source) for _ in range(3)]
    prompts = [make_prompt(session, shard) for shard in shards[:2]]
    make_prompt(session, make_shard(session, make_source(session, other)))
    release = pin_release(session, OPERATOR, task.id, "spring")
    make_prompt(session, shards[2])
    shown = read_release(session, OPERATOR, release.id)

    assert [(m.prompt_id, m.source_id, m.shard_id, m.digest) for m in shown.members] == [
        (prompt.id, source.id, prompt.shard_id, prompt.digest) for prompt in prompts
    ]
    assert shown.losses == ()
    assert release.created_at.tzinfo is not None


def test_what_is_being_forgotten_is_not_pinned(session: Session) -> None:
    task = make_task(session)
    stays, goes = make_source(session, task), make_source(session, task)
    pinned = make_prompt(session, make_shard(session, stays))
    make_prompt(session, make_shard(session, goes))
    goes.name, goes.erasure_id = None, new_id()
    release = pin_release(session, OPERATOR, task.id, "spring")

    assert pins_of(session, release.id) == [pinned.id]


def test_a_release_without_prompts_is_refused_and_not_stored(session: Session) -> None:
    task = make_task(session)
    with pytest.raises(Conflict, match="wait"):
        pin_release(session, OPERATOR, task.id, "spring")

    assert list_releases(session).items == ()


def test_a_name_is_taken_once_in_each_task(session: Session) -> None:
    tasks = [make_task(session) for _ in range(2)]
    made = {}
    for task in tasks:
        make_prompt(session, make_shard(session, make_source(session, task)))
        made[task.id] = pin_release(session, OPERATOR, task.id, "spring").id
    with pytest.raises(Conflict):
        pin_release(session, OPERATOR, tasks[0].id, "spring")

    for task in tasks:
        assert find_release(session, task.id, "spring").id == made[task.id]
        assert [release.id for release in list_releases(session, task.id).items] == [made[task.id]]
    assert {release.id for release in list_releases(session).items} == set(made.values())
    with pytest.raises(NotFound):
        find_release(session, tasks[0].id, made[tasks[1].id])


def test_only_admins_pin_and_remove(session: Session) -> None:
    owner = make_user(session, role="owner")
    task = make_task(session)
    make_prompt(session, make_shard(session, make_source(session, task, owner)))
    with pytest.raises(Forbidden):
        pin_release(session, make_caller(owner), task.id, "spring")
    release = pin_release(session, OPERATOR, task.id, "spring")
    with pytest.raises(Forbidden):
        remove_release(session, make_caller(owner), release.id)
    remove_release(session, OPERATOR, release.id)
    for gone in (remove_release, read_release):
        with pytest.raises(NotFound):
            gone(session, OPERATOR, release.id)
    with pytest.raises(NotFound):
        pin_release(session, OPERATOR, new_id(), "spring")


def test_callers_see_as_much_of_a_release_as_of_its_sources(session: Session) -> None:
    task, reader = make_task(session), make_user(session)
    mine, foreign = make_source(session, task), make_source(session, task)
    grant_right(session, OPERATOR, reader.id, mine.id, "use")
    prompts = [make_prompt(session, make_shard(session, source)) for source in (mine, foreign)]
    release = pin_release(session, OPERATOR, task.id, "spring")
    for source in (mine, foreign):
        session.add(
            ReleaseLoss(
                release_id=release.id,
                prompt_id=new_id(),
                source_id=source.id,
                shard_id=new_id(),
                erasure_id=new_id(),
                lost_at=now(),
            )
        )
    session.flush()
    all_of_it = read_release(session, OPERATOR, release.id)
    part_of_it = read_release(session, make_caller(reader), release.id)

    assert {m.prompt_id for m in all_of_it.members} == {prompt.id for prompt in prompts}
    assert [m.source_id for m in part_of_it.members] == [mine.id]
    assert {loss.source_id for loss in all_of_it.losses} == {mine.id, foreign.id}
    assert [loss.source_id for loss in part_of_it.losses] == [mine.id]


def test_pinning_waits_for_a_source_that_is_being_forgotten(database: Database) -> None:
    with database.write_transaction() as session:
        task = make_task(session)
        stays, goes = make_source(session, task), make_source(session, task)
        pinned = make_prompt(session, make_shard(session, stays))
        lost = make_prompt(session, make_shard(session, goes))
    begun = threading.Event()

    def pin() -> None:
        begun.set()
        with database.write_transaction() as session:
            pin_release(session, OPERATOR, task.id, "spring")

    thread = threading.Thread(target=pin)
    with database.write_transaction() as session:
        source = session.merge(goes)
        source.name, source.erasure_id = None, new_id()
        session.flush()
        thread.start()
        begun.wait()
        session.delete(session.merge(lost))
    thread.join()

    with database.read_transaction() as session:
        assert pins_of(session, find_release(session, task.id, "spring").id) == [pinned.id]
