"""Rights agree with a model in plain Python after any sequence of actions that hypothesis generates."""

from contextlib import nullcontext
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, update

from alacarte.api.literals import Right, Role
from registry.access.caller import OPERATOR, Caller
from registry.access.grants import grant_right, revoke_right
from registry.access.source_rights import require_right
from registry.access.tokens import issue_token, parse_token, revoke_token
from registry.access.usable_prompts import UsablePromptSet, read_usable_prompts, recheck_usable_prompts
from registry.access.users import add_member, create_user, remove_member, remove_user
from registry.catalog.releases import pin_release, remove_release
from registry.db.database import Database
from registry.db.models.catalog import Source, Task
from registry.db.models.prompts import Prompt
from registry.db.models.users import RIGHTS, ROLES
from registry.errors import DomainError, Forbidden, NotFound, Unauthenticated
from registry.ids import new_id
from tests.registry.access.conftest import clear_tables
from tests.registry.access.model import RightsModel
from tests.registry.factories import make_prompt, make_shard, make_source, make_task

pick = st.integers(0, 1_000_000)


class RightsMachine(RuleBasedStateMachine):
    """Actions that change rights; after each of them, all rights are compared with the model."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.model = RightsModel()
        self.tasks: list[Task] = []
        self.gone: list[UUID] = [new_id()]  # sources that are not there, any more or at all
        self.dead: list[str] = []  # tokens likewise
        self.earlier: dict[
            tuple[str, UUID], list[UsablePromptSet]
        ] = {}  # what was found for a token and a task, and when

    def pick_one(self, things: object, number: int) -> UUID | None:
        known = sorted(things)  # type: ignore[call-overload]  # an iterable of ids
        return known[number % len(known)] if known else None

    @initialize()
    def begin(self) -> None:
        clear_tables(self.database)
        with self.database.write_transaction() as session:
            self.tasks = [make_task(session) for _ in range(2)]
        self.add_user("predictor")
        self.add_group()
        self.change_membership(0, 0)
        self.add_source(0, 0, True)
        self.add_source(0, 0, False)
        for source in range(2):
            self.add_prompt(source)

    @rule(role=st.sampled_from(ROLES))
    def add_user(self, role: Role) -> None:
        with self.database.write_transaction() as session:
            user = create_user(session, OPERATOR, f"user {new_id().hex}", role)
            issued = issue_token(session, OPERATOR, user.id)
        self.model.roles[user.id] = role
        self.model.tokens[issued.text] = (issued.token.id, user.id)

    @rule()
    def add_group(self) -> None:
        with self.database.write_transaction() as session:
            group = create_user(session, OPERATOR, f"group {new_id().hex}", is_group=True)
        self.model.groups.add(group.id)

    @rule(group=pick, user=pick)
    def change_membership(self, group: int, user: int) -> None:
        chosen, member = self.pick_one(self.model.groups, group), self.pick_one(self.model.roles, user)
        if chosen is None or member is None:
            return
        with self.database.write_transaction() as session:
            if (chosen, member) in self.model.members:
                remove_member(session, OPERATOR, chosen, member)
            else:
                add_member(session, OPERATOR, chosen, member)
        self.model.members ^= {(chosen, member)}

    @rule(user=pick)
    def remove_user_or_group(self, user: int) -> None:
        chosen = self.pick_one({*self.model.roles, *self.model.groups}, user)
        admins = [known for known, role in self.model.roles.items() if role == "admin"]
        if chosen is None or admins == [chosen]:
            return
        with self.database.write_transaction() as session:
            remove_user(session, OPERATOR, chosen)
        model = self.model
        model.roles.pop(chosen, None)
        model.groups.discard(chosen)
        model.members = {pair for pair in model.members if chosen not in pair}
        model.grants = {given for given in model.grants if given[0] != chosen}
        self.dead += [text for text, (_, holder) in model.tokens.items() if holder == chosen]
        model.tokens = {text: known for text, known in model.tokens.items() if known[1] != chosen}
        for source, (task, name, owner) in model.sources.items():
            model.sources[source] = (task, name, None if owner == chosen else owner)

    @rule(token=pick)
    def revoke_one_token(self, token: int) -> None:
        if not self.model.tokens:
            return
        text = sorted(self.model.tokens)[token % len(self.model.tokens)]
        with self.database.write_transaction() as session:
            revoke_token(session, OPERATOR, self.model.tokens.pop(text)[0])
        self.dead.append(text)

    @rule(task=pick, owner=pick, is_owned=st.booleans())
    def add_source(self, task: int, owner: int, is_owned: bool) -> None:
        owner_id = self.pick_one(self.model.roles, owner) if is_owned else None
        with self.database.write_transaction() as session:
            source = make_source(session, session.merge(self.tasks[task % 2]), name=f"source {new_id().hex}")
            source.owner_id = owner_id
        assert source.name is not None
        self.model.sources[source.id] = (source.task_id, source.name, owner_id)

    @rule(source=pick)
    def add_prompt(self, source: int) -> None:
        if (chosen := self.pick_one(self.model.sources, source)) is None:
            return
        with self.database.write_transaction() as session:
            prompt = make_prompt(session, make_shard(session, session.get_one(Source, chosen)))
        self.model.prompts[prompt.id] = chosen

    @rule(prompt=pick)
    def delete_prompt(self, prompt: int) -> None:
        if (chosen := self.pick_one(self.model.prompts, prompt)) is None:
            return
        with self.database.write_transaction() as session:
            session.execute(delete(Prompt).where(Prompt.id == chosen))
        del self.model.prompts[chosen]

    @rule(source=pick)
    def forget_source(self, source: int) -> None:
        if (chosen := self.pick_one(self.model.sources, source)) is None:
            return
        with self.database.write_transaction() as session:
            forgotten = update(Source).where(Source.id == chosen)
            session.execute(forgotten.values(name=None, erasure_id=new_id()))
        self.gone.append(chosen)
        del self.model.sources[chosen]
        self.model.prompts = {p: s for p, s in self.model.prompts.items() if s != chosen}
        self.model.grants = {given for given in self.model.grants if given[1] != chosen}

    @rule(caller=pick, user=pick, source=pick, right=st.sampled_from(RIGHTS), is_operator=st.booleans())
    def change_grant(self, caller: int, user: int, source: int, right: Right, is_operator: bool) -> None:
        by, to = self.pick_one(self.model.roles, caller), self.pick_one({*self.model.roles, *self.model.groups}, user)
        chosen = self.pick_one(self.model.sources, source)
        if by is None or to is None or chosen is None:
            return
        given = (to, chosen, right)
        is_granted = given in self.model.grants
        expected: type[DomainError] | None = None
        if not is_operator and not self.model.rights(by, chosen):
            expected = NotFound
        elif not is_operator and right not in self.model.grantable(by, chosen):
            expected = Forbidden
        as_whom = OPERATOR if is_operator else Caller(by, self.model.roles[by])
        with (
            nullcontext() if expected is None else pytest.raises(expected),
            self.database.write_transaction() as session,
        ):
            (revoke_right if is_granted else grant_right)(session, as_whom, to, chosen, right)
        if expected is None:
            self.model.grants ^= {given}

    @rule(task=pick)
    def add_release(self, task: int) -> None:
        its_task = self.tasks[task % 2].id
        pinned = {p for p, s in self.model.prompts.items() if self.model.sources[s][0] == its_task}
        if not pinned:
            return
        with self.database.write_transaction() as session:
            release = pin_release(session, OPERATOR, its_task, f"release {new_id().hex}")
        self.model.releases[release.id] = (its_task, pinned)

    @rule(release=pick)
    def remove_one_release(self, release: int) -> None:
        if (chosen := self.pick_one(self.model.releases, release)) is None:
            return
        with self.database.write_transaction() as session:
            remove_release(session, OPERATOR, chosen)
        del self.model.releases[chosen]

    @invariant()
    def every_token_reads_its_usable_prompts(self) -> None:
        for text, (_, user) in self.model.tokens.items():
            for task in self.tasks:
                sources = self.model.usable(user, task.id)
                found = read_usable_prompts(self.database, parse_token(text), task=task.id)
                assert found.caller == Caller(user, self.model.roles[user])
                assert set(found.sources) == sources
                assert {(p.id, p.source_id) for p in found.prompts} == {
                    (p, s) for p, s in self.model.prompts.items() if s in sources
                }
                now = {prompt.id for prompt in found.prompts}
                earlier = self.earlier.setdefault((text, task.id), [])
                for before in earlier:
                    is_unchanged = {prompt.id for prompt in before.prompts} <= now
                    assert recheck_usable_prompts(self.database, parse_token(text), before) == is_unchanged
                if not earlier or earlier[-1].prompts != found.prompts:
                    earlier.append(found)
        for text in self.dead:
            with pytest.raises(Unauthenticated):
                read_usable_prompts(self.database, parse_token(text), task=self.tasks[0].id)
            for before in self.earlier.get((text, self.tasks[0].id), []):
                with pytest.raises(Unauthenticated):
                    recheck_usable_prompts(self.database, parse_token(text), before)

    @rule(token=pick, release=pick)
    def read_release_prompts(self, token: int, release: int) -> None:
        if not self.model.tokens or (chosen := self.pick_one(self.model.releases, release)) is None:
            return
        text = sorted(self.model.tokens)[token % len(self.model.tokens)]
        task, pinned = self.model.releases[chosen]
        sources = self.model.usable(self.model.tokens[text][1], task)
        found = read_usable_prompts(self.database, parse_token(text), task=task, release=chosen)
        expected = {p for p in pinned if self.model.prompts.get(p) in sources}
        assert {p.id for p in found.prompts} == expected
        whole = read_usable_prompts(self.database, parse_token(text), task=task)
        is_pinned = {p.id for p in whole.prompts} <= expected
        assert recheck_usable_prompts(self.database, parse_token(text), whole, release=chosen) == is_pinned

    @rule(token=pick, picks=st.lists(pick, max_size=3), by_name=st.booleans(), with_gone=st.booleans())
    def read_prompts_of_sources(self, token: int, picks: list[int], by_name: bool, with_gone: bool) -> None:
        if not self.model.tokens or not self.model.sources:
            return
        text = sorted(self.model.tokens)[token % len(self.model.tokens)]
        task = self.tasks[token % 2].id
        usable_sources = self.model.usable(self.model.tokens[text][1], task)
        named = {chosen for number in picks if (chosen := self.pick_one(self.model.sources, number)) is not None}
        sources: list[UUID | str] = [self.model.sources[s][1] if by_name else s for s in named]
        if with_gone:
            sources.append(self.gone[-1])
        if with_gone or not named <= usable_sources:
            with pytest.raises(NotFound):
                read_usable_prompts(self.database, parse_token(text), task=task, sources=sources)
        else:
            found = read_usable_prompts(self.database, parse_token(text), task=task, sources=sources)
            assert set(found.sources) == named
            assert recheck_usable_prompts(self.database, parse_token(text), found, sources=sources)
            whole = read_usable_prompts(self.database, parse_token(text), task=task)
            is_named = all(prompt.source_id in named for prompt in whole.prompts)
            assert recheck_usable_prompts(self.database, parse_token(text), whole, sources=sources) == is_named

    @rule(user=pick, source=pick, is_gone=st.booleans())
    def require_each_right(self, user: int, source: int, is_gone: bool) -> None:
        chosen = self.gone[source % len(self.gone)] if is_gone else self.pick_one(self.model.sources, source)
        by = self.pick_one(self.model.roles, user)
        if by is None or chosen is None:
            return
        rights = set() if is_gone else self.model.rights(by, chosen)
        for right in RIGHTS:
            found: type[DomainError] | None = None
            try:
                with self.database.write_transaction() as session:
                    require_right(session, Caller(by, self.model.roles[by]), right, chosen)
            except DomainError as error:
                found = type(error)
            assert found == (None if right in rights else Forbidden if rights else NotFound)


def test_rights_agree_with_the_model_after_any_actions(database: Database, backend: str) -> None:
    examples = 30 if backend == "sqlite-folder" else 6
    run_state_machine_as_test(
        lambda: RightsMachine(database),  # type: ignore[arg-type]  # any callable will do, its documentation says
        settings=settings(max_examples=examples, stateful_step_count=25),
    )
