"""A subject of an OIDC issuer authenticates at most one user, until an admin unbinds it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry.access.authentication import authenticate_in_session
from registry.access.caller import OPERATOR, Caller
from registry.access.oidc_subjects import OidcCredential, bind_subject, is_subject, unbind_subject
from registry.access.usable_prompts import read_usable_prompts
from registry.access.users import find_user, remove_user
from registry.db.database import Database
from registry.db.models.log import LogEntry
from registry.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from registry.ids import new_id
from tests.registry.access.fixtures import TASK, seed
from tests.registry.access.test_usable_plan import assert_indexed, recorded
from tests.registry.factories import make_caller, make_prompt, make_shard, make_source, make_task, make_user

ISSUER = "https://id.example/realm"


def credential(subject: str = "ana", issuer: str = ISSUER, seconds: float = 600) -> OidcCredential:
    return OidcCredential(issuer, subject, datetime.now(UTC) + timedelta(seconds=seconds))


def test_a_bound_subject_is_its_user_with_the_role_and_rights_of_the_rows(database: Database) -> None:
    with database.write_transaction() as session:
        ana = make_user(session, role="owner")
        task = make_task(session)
        source = make_source(session, task, ana)
        prompt = make_prompt(session, make_shard(session, source))
        foreign = make_source(session, task)
        make_prompt(session, make_shard(session, foreign))
        bind_subject(session, OPERATOR, ana.id, ISSUER, "ana")
    with database.read_transaction() as session:
        assert authenticate_in_session(session, credential()) == Caller(ana.id, "owner")

    found = read_usable_prompts(database, credential(), task=task.id)

    assert found.caller == Caller(ana.id, "owner")
    assert [one.id for one in found.prompts] == [prompt.id]


WRONG: dict[str, Callable[[], OidcCredential]] = {
    "another subject": lambda: credential("bob"),
    "the subject in other letters": lambda: credential("Ana"),
    "the subject with a space behind it": lambda: credential("ana "),
    "a pattern": lambda: credential("%"),
    "another issuer": lambda: credential(issuer="https://id.example"),
    "one that has expired": lambda: credential(seconds=-0.1),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_credential_is_refused_if_it_is_of(wrong: str, database: Database) -> None:
    with database.write_transaction() as session:
        make_task(session)
        bind_subject(session, OPERATOR, make_user(session).id, ISSUER, "ana")
        make_user(session, "bob")
    with database.read_transaction() as session, pytest.raises(Unauthenticated):
        authenticate_in_session(session, WRONG[wrong]())
    with pytest.raises(Unauthenticated):
        read_usable_prompts(database, WRONG[wrong]())


def test_no_credential_matches_users_without_a_subject(session: Session) -> None:
    make_user(session), make_user(session)
    for none in ("None", "null", "NULL", ""):
        with pytest.raises(Unauthenticated):
            authenticate_in_session(session, credential(none, none))


def test_an_unbound_or_removed_user_is_refused_at_once(database: Database) -> None:
    with database.write_transaction() as session:
        make_task(session)
        ana, bob = make_user(session), make_user(session)
        bind_subject(session, OPERATOR, ana.id, ISSUER, "ana")
        bind_subject(session, OPERATOR, bob.id, ISSUER, "bob")
    read_usable_prompts(database, credential())
    with database.write_transaction() as session:
        unbind_subject(session, OPERATOR, ana.id)
        remove_user(session, OPERATOR, bob.id)
    for subject in ("ana", "bob"):
        with pytest.raises(Unauthenticated):
            read_usable_prompts(database, credential(subject))


def test_a_subject_is_one_user_and_a_user_has_one_subject(session: Session) -> None:
    ana, bob = make_user(session), make_user(session)
    bind_subject(session, OPERATOR, ana.id, ISSUER, "ana")
    with pytest.raises(Conflict, match="unbind it there first"):
        bind_subject(session, OPERATOR, bob.id, ISSUER, "ana")
    bind_subject(session, OPERATOR, bob.id, "https://other.example", "ana")
    bind_subject(session, OPERATOR, ana.id, ISSUER, "ana 2")

    assert authenticate_in_session(session, credential("ana 2")).user_id == ana.id
    assert authenticate_in_session(session, credential("ana", "https://other.example")).user_id == bob.id
    with pytest.raises(Unauthenticated):
        authenticate_in_session(session, credential("ana"))
    assert find_user(session, OPERATOR, bob.id).subject == "ana"


def test_only_admins_bind(session: Session) -> None:
    for role in ("owner", "predictor"):
        user = make_user(session, role=role)
        with pytest.raises(Forbidden):
            bind_subject(session, make_caller(user), user.id, ISSUER, "me")
        with pytest.raises(Forbidden):
            unbind_subject(session, make_caller(user), user.id)


def test_groups_and_nobody_have_no_subject(session: Session) -> None:
    with pytest.raises(Invalid, match="bind the subject to a member"):
        bind_subject(session, OPERATOR, make_user(session, is_group=True).id, ISSUER, "x")
    with pytest.raises(NotFound):
        bind_subject(session, OPERATOR, new_id(), ISSUER, "x")
    with pytest.raises(NotFound):
        unbind_subject(session, OPERATOR, make_user(session).id)
    for issuer, subject in ((ISSUER, ""), (ISSUER, "x" * 256), (ISSUER, "a\0b"), ("", "x"), ("https://a\n", "x")):
        with pytest.raises(Invalid):
            bind_subject(session, OPERATOR, new_id(), issuer, subject)


@pytest.mark.parametrize("subject", ["x", "auth0|5f7c", "sms:+49 30", "Zoë", "x" * 255])
def test_a_subject_may_be(subject: str) -> None:
    assert is_subject(subject)


def test_the_log_names_who_bound_whom_and_no_subject(session: Session) -> None:
    admin, ana = make_user(session, role="admin"), make_user(session)
    bind_subject(session, make_caller(admin), ana.id, ISSUER, "a name to hide")
    bind_subject(session, make_caller(admin), ana.id, ISSUER, "a name to hide")
    unbind_subject(session, make_caller(admin), ana.id)
    lines = session.scalars(select(LogEntry).order_by(LogEntry.number)).all()

    assert [(line.action, line.actor, line.subject) for line in lines] == [
        ("user.bound", admin.id, {"user": str(ana.id)}),
        ("user.unbound", admin.id, {"user": str(ana.id)}),
    ]


def test_the_prompts_of_a_subject_are_read_by_one_statement_with_indexes(database: Database) -> None:
    seed(database, sources=1500, users=1500, grants=5)
    with database.write_transaction() as session:
        # As many subjects as users, or the planner would think of something else.
        session.execute(text("UPDATE users SET issuer = 'https://id.example/realm', subject = name WHERE NOT is_group"))
        name = session.execute(text("SELECT name FROM users WHERE NOT is_group LIMIT 1")).scalar_one()
        session.execute(text("ANALYZE"))

    with recorded() as sent:
        read_usable_prompts(database, credential(name), task=TASK)

    [(statement, parameters)] = sent
    assert_indexed(database, statement, parameters)
