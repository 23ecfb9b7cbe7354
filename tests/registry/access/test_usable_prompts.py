"""A token may use what its user owns or was granted, within the task, the release and the named sources."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from alacarte.api.limits import MAX_NAMED_SOURCES
from registry.access.caller import OPERATOR, Caller
from registry.access.grants import grant_right, revoke_right
from registry.access.tokens import issue_token, parse_token, revoke_token
from registry.access.usable_prompts import read_usable_prompts
from registry.access.users import add_member, remove_member
from registry.catalog.releases import pin_release
from registry.db.clock import seconds_from_now
from registry.db.database import Database
from registry.db.models.catalog import Source, Task
from registry.db.models.prompts import Prompt
from registry.db.models.users import Token, User
from registry.errors import Invalid, NotFound, Unauthenticated
from registry.ids import new_id
from tests.registry.factories import make_prompt, make_shard, make_source, make_task, make_user


class Setup:
    """A task with two sources of two prompts each; the user of the token may use the first."""

    def __init__(self, database: Database) -> None:
        with database.write_transaction() as session:
            self.task = make_task(session, "flowers", labels=["aster", "tulip"])
            self.user = make_user(session)
            self.issued = issue_token(session, OPERATOR, self.user.id, lifetime=timedelta(hours=1))
            self.token = self.issued.text
            self.mine, self.foreign = make_source(session, self.task, name="mine"), make_source(session, self.task)
            self.prompts: list[Prompt] = []
            for source in (self.mine, self.foreign):
                self.prompts += [make_prompt(session, make_shard(session, source)) for _ in range(2)]
            grant_right(session, OPERATOR, self.user.id, self.mine.id, "use")


@pytest.fixture
def setup(database: Database) -> Setup:
    return Setup(database)


def ids_of(database: Database, token: str, **narrowed: Any) -> list[UUID]:  # Any: as `read_usable_prompts` has them
    return [prompt.id for prompt in read_usable_prompts(database, parse_token(token), **narrowed).prompts]


def test_the_set_has_everything_that_a_prediction_needs(database: Database, setup: Setup) -> None:
    usable = read_usable_prompts(database, parse_token(setup.token))

    assert usable.caller == Caller(setup.user.id, "predictor")
    assert (usable.task.id, usable.task.name, usable.task.backbone) == (setup.task.id, "flowers", setup.task.backbone)
    assert (usable.task.size, usable.task.identity) == (None, None)
    assert (usable.task.composition, usable.task.weighting) == ("average", "none")
    assert usable.task.labels == ("aster", "tulip")
    assert [(*prompt, prompt.key) for prompt in usable.prompts] == [
        (p.id, p.source_id, p.shard_id, p.generation, p.digest, p.size_bytes, p.key) for p in setup.prompts[:2]
    ]
    assert usable.sources == (setup.mine.id,)


def test_a_source_that_is_not_trained_yet_is_usable_and_has_no_prompts(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        own = make_source(session, setup.task, setup.user)
        make_shard(session, own)
    usable = read_usable_prompts(database, parse_token(setup.token))

    assert usable.sources == (setup.mine.id, own.id)
    assert {prompt.source_id for prompt in usable.prompts} == {setup.mine.id}


def test_a_source_that_is_usable_in_two_ways_is_listed_once(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        session.execute(update(Source).where(Source.id == setup.mine.id).values(owner_id=setup.user.id))
        for _ in range(2):
            group = make_user(session, is_group=True)
            add_member(session, OPERATOR, group.id, setup.user.id)
            grant_right(session, OPERATOR, group.id, setup.mine.id, "use")

    assert ids_of(database, setup.token) == [prompt.id for prompt in setup.prompts[:2]]


def test_what_is_granted_to_a_group_is_usable_by_its_members_alone(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        group = make_user(session, is_group=True)
        grant_right(session, OPERATOR, group.id, setup.foreign.id, "use")
    assert read_usable_prompts(database, parse_token(setup.token)).sources == (setup.mine.id,)
    with database.write_transaction() as session:
        add_member(session, OPERATOR, group.id, setup.user.id)
    assert read_usable_prompts(database, parse_token(setup.token)).sources == (setup.mine.id, setup.foreign.id)
    assert ids_of(database, setup.token) == [prompt.id for prompt in setup.prompts]
    with database.write_transaction() as session:
        remove_member(session, OPERATOR, group.id, setup.user.id)
    assert read_usable_prompts(database, parse_token(setup.token)).sources == (setup.mine.id,)


@pytest.mark.parametrize("role", ["admin", "owner"])
def test_no_role_and_no_other_right_implies_use(database: Database, setup: Setup, role: str) -> None:
    with database.write_transaction() as session:
        session.execute(update(User).where(User.id == setup.user.id).values(role=role))
        revoke_right(session, OPERATOR, setup.user.id, setup.mine.id, "use")
        grant_right(session, OPERATOR, setup.user.id, setup.mine.id, "manage")
        grant_right(session, OPERATOR, setup.user.id, setup.mine.id, "forget")
    usable = read_usable_prompts(database, parse_token(setup.token))

    assert (usable.prompts, usable.sources) == ((), ())
    assert usable.caller.role == role


def test_sources_named_by_id_and_by_name_narrow_the_set(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        more = [make_source(session, setup.task, setup.user, name=f"s{number}") for number in range(5)]
    named = read_usable_prompts(
        database, parse_token(setup.token), sources=["mine", str(more[0].id), more[1].id, "s2", "s2"]
    )

    assert named.sources == (setup.mine.id, more[0].id, more[1].id, more[2].id)
    assert read_usable_prompts(database, parse_token(setup.token), sources=[]).sources == ()
    assert [prompt.source_id for prompt in named.prompts] == [setup.mine.id] * 2


def test_a_named_source_that_is_not_usable_is_not_found_whether_it_exists_or_not(
    database: Database, setup: Setup
) -> None:
    with database.write_transaction() as session:
        elsewhere = make_source(session, make_task(session), setup.user, name="elsewhere")
        own_name = str(session.get_one(Source, setup.foreign.id).name)
    unusable: list[str | UUID] = [setup.foreign.id, own_name, elsewhere.id, "elsewhere", new_id(), "nothing", "a\0b"]
    for source in unusable:
        for named in ([source], ["mine", source]):
            with pytest.raises(NotFound, match="no source"):
                read_usable_prompts(database, parse_token(setup.token), task="flowers", sources=named)


def test_too_many_named_sources_are_refused(database: Database, setup: Setup) -> None:
    with pytest.raises(Invalid, match=str(MAX_NAMED_SOURCES)):
        read_usable_prompts(
            database, parse_token(setup.token), sources=[new_id() for _ in range(MAX_NAMED_SOURCES + 1)]
        )
    with pytest.raises(NotFound):
        read_usable_prompts(database, parse_token(setup.token), sources=[new_id() for _ in range(MAX_NAMED_SOURCES)])


def test_a_task_is_named_where_there_are_several(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        other = make_task(session, "birds")
        prompt = make_prompt(session, make_shard(session, make_source(session, other, setup.user)))

    with pytest.raises(Invalid, match="name one"):
        read_usable_prompts(database, parse_token(setup.token))
    for name in ("birds", str(other.id), other.id):
        usable = read_usable_prompts(database, parse_token(setup.token), task=name)
        assert [p.id for p in usable.prompts] == [prompt.id]
        assert usable.task.labels is None
    for unknown in ("fish", new_id(), "\0"):
        with pytest.raises(NotFound, match="no task"):
            read_usable_prompts(database, parse_token(setup.token), task=unknown)


def test_without_any_task_the_message_says_so(database: Database) -> None:
    with database.write_transaction() as session:
        token = issue_token(session, OPERATOR, make_user(session).id).text

    with pytest.raises(Invalid, match="no task yet"):
        read_usable_prompts(database, parse_token(token))


def test_a_release_is_its_members_that_may_be_used(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        release = pin_release(session, OPERATOR, setup.task.id, "spring")
        later = make_prompt(session, make_shard(session, session.get_one(Source, setup.mine.id)))
        other = make_task(session)
        make_prompt(session, make_shard(session, make_source(session, other)))
        foreign = pin_release(session, OPERATOR, other.id, "autumn")
    mine = [prompt.id for prompt in setup.prompts[:2]]

    assert ids_of(database, setup.token, task="flowers") == [*mine, later.id]
    for name in ("spring", release.id, str(release.id)):
        assert ids_of(database, setup.token, task="flowers", release=name) == mine
        assert ids_of(database, setup.token, task="flowers", release=name, sources=["mine"]) == mine
    for unknown in ("autumn", foreign.id, new_id(), "a\nb"):
        with pytest.raises(NotFound, match="no release"):
            read_usable_prompts(database, parse_token(setup.token), task="flowers", release=unknown)


def test_what_is_being_forgotten_is_not_usable_even_while_its_rows_are_there(database: Database, setup: Setup) -> None:
    with database.write_transaction() as session:
        pin_release(session, OPERATOR, setup.task.id, "spring")
        session.execute(update(Source).where(Source.id == setup.mine.id).values(name=None, erasure_id=new_id()))

    for narrowed in ({}, {"release": "spring"}):
        usable = read_usable_prompts(database, parse_token(setup.token), **narrowed)
        assert (usable.prompts, usable.sources) == ((), ())
    for source in ("mine", setup.mine.id):
        with pytest.raises(NotFound):
            read_usable_prompts(database, parse_token(setup.token), sources=[source])


def test_an_invalid_token_reads_no_prompts(database: Database, setup: Setup) -> None:
    forged = setup.token[:-1] + ("A" if setup.token[-1] != "A" else "B")
    for garbage in (forged, "", "alc_x", "x" * 100_000):
        with pytest.raises(Unauthenticated):
            read_usable_prompts(database, parse_token(garbage))
    with database.write_transaction() as session:
        session.execute(update(Token).values(expires_at=seconds_from_now(-0.001)))
    with pytest.raises(Unauthenticated):
        read_usable_prompts(database, parse_token(setup.token), task="nothing")
    with database.write_transaction() as session:
        session.execute(update(Token).values(expires_at=None))
    read_usable_prompts(database, parse_token(setup.token))
    with database.write_transaction() as session:
        revoke_token(session, OPERATOR, setup.issued.token.id)
    with pytest.raises(Unauthenticated):
        read_usable_prompts(database, parse_token(setup.token))


def test_the_identity_of_the_backbone_is_read_each_time(database: Database, setup: Setup) -> None:
    assert read_usable_prompts(database, parse_token(setup.token)).task.identity is None
    with database.write_transaction() as session:
        session.execute(update(Task).values(identity="abc"))

    assert read_usable_prompts(database, parse_token(setup.token)).task.identity == "abc"
