"""Tokens are shown once, stored as a hash, and valid until they expire or are revoked."""

import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from registry.access.authentication import authenticate_in_session
from registry.access.caller import OPERATOR, Caller
from registry.access.tokens import issue_token, list_tokens, parse_token, revoke_token
from registry.db.clock import seconds_from_now
from registry.db.database import Database
from registry.db.models.users import Token
from registry.errors import DomainError, Forbidden, Invalid, NotFound, Unauthenticated
from registry.ids import new_id
from tests.registry.factories import make_caller, make_user


def test_a_token_authenticates_the_user_it_was_issued_to(database: Database) -> None:
    with database.write_transaction() as session:
        ana = make_user(session, role="owner")
        make_user(session, role="admin")
        issued = issue_token(session, OPERATOR, ana.id, note="laptop", lifetime=timedelta(hours=1))
    with database.read_transaction() as session:
        assert authenticate_in_session(session, parse_token(issued.text)) == Caller(ana.id, "owner")

    assert re.fullmatch(r"alc_[a-z2-7]{12}_[A-Za-z0-9_-]{43}", issued.text)
    assert issued.token.note == "laptop"
    assert issued.token.expires_at is not None
    assert issued.token.expires_at - issued.token.created_at == pytest.approx(
        timedelta(hours=1), abs=timedelta(seconds=2)
    )


def test_an_expired_token_is_refused(session: Session) -> None:
    issued = issue_token(session, OPERATOR, make_user(session).id, lifetime=timedelta(days=1))
    session.execute(update(Token).values(expires_at=seconds_from_now(-0.001)))
    with pytest.raises(Unauthenticated):
        authenticate_in_session(session, parse_token(issued.text))


def test_a_revoked_token_is_refused_and_its_row_deleted(database: Database) -> None:
    with database.write_transaction() as session:
        issued = issue_token(session, OPERATOR, make_user(session).id)
    with database.write_transaction() as session:
        revoke_token(session, OPERATOR, issued.token.id)
    with database.read_transaction() as session:
        with pytest.raises(Unauthenticated):
            authenticate_in_session(session, parse_token(issued.text))
        assert session.scalars(select(Token)).all() == []


def test_the_prefix_alone_is_refused(session: Session) -> None:
    user = make_user(session)
    text_of_one, text_of_other = (issue_token(session, OPERATOR, user.id).text for _ in range(2))
    forged = text_of_one[:17] + text_of_other[17:]
    for wrong in (forged, text_of_one[:-1] + ("A" if text_of_one[-1] != "A" else "B")):
        with pytest.raises(Unauthenticated):
            authenticate_in_session(session, parse_token(wrong))


GARBAGE = {
    "nothing": "",
    "the beginning": "alc_",
    "a header": "Bearer x",
    "one too short": "alc_abcdefghijkl_" + "x" * 42,
    "capitals in the prefix": "alc_ABCDEFGHIJKL_" + "x" * 43,
    "a line break at the end": "alc_abcdefghijkl_" + "x" * 42 + "\n",
    "NULs": "\0" * 60,
    "letters beyond ASCII": "é" * 60,
    "lone surrogates": "\ud800" * 60,
    "SQL": "' OR 1=1 --",
    "fifty million letters": "x" * 50_000_000,
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_malformed_token_is_refused_without_a_query(garbage: str) -> None:
    nowhere = Session()

    with pytest.raises(Unauthenticated) as refusal:
        authenticate_in_session(nowhere, parse_token(GARBAGE[garbage]))

    assert len(str(refusal.value)) < 200


@given(st.text())
def test_no_text_but_a_token_is_a_token(garbage: str) -> None:
    with pytest.raises(Unauthenticated):
        authenticate_in_session(Session(), parse_token(garbage))


def test_the_text_of_a_token_is_not_stored(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with database.write_transaction() as session:
        ana = make_user(session)
        issued = issue_token(session, OPERATOR, ana.id)
        secret = issued.text.rpartition(issued.token.prefix + "_")[2]
        stored = [
            str(row)
            for table in ("tokens", "users", "log_entries")
            for row in session.execute(text(f"SELECT * FROM {table}"))
        ]
        other = make_caller(make_user(session))
        errors: list[DomainError] = []
        for refused in (
            lambda: authenticate_in_session(session, parse_token(issued.text[:-1])),
            lambda: list_tokens(session, other, ana.id),
        ):
            with pytest.raises(DomainError) as caught:
                refused()
            errors.append(caught.value)

    assert len(stored) == 3
    for shown in (*stored, repr(issued), repr(issued.token), caplog.text, *map(repr, errors)):
        assert secret not in shown
        assert secret[:20] not in shown


def test_no_two_tokens_are_alike_and_they_live_forever_or_up_to_a_century(session: Session) -> None:
    user = make_user(session)
    issued = [issue_token(session, OPERATOR, user.id) for _ in range(20)]
    century = issue_token(session, OPERATOR, user.id, lifetime=timedelta(days=36500))

    assert authenticate_in_session(session, parse_token(century.text)).role == "predictor"
    assert len({each.text for each in issued}) == 20
    assert {each.token.expires_at for each in issued} == {None}


def test_users_have_their_own_tokens_and_admins_everyones(session: Session) -> None:
    ana, bob, admin = make_user(session), make_user(session), make_user(session, role="admin")
    mine = issue_token(session, make_caller(admin), ana.id).token
    foreign = issue_token(session, make_caller(admin), bob.id).token
    caller = make_caller(ana)

    assert [token.id for token in list_tokens(session, caller).items] == [mine.id]
    assert [token.id for token in list_tokens(session, caller, ana.id).items] == [mine.id]
    assert {token.id for token in list_tokens(session, make_caller(admin)).items} == {mine.id, foreign.id}
    assert [token.id for token in list_tokens(session, make_caller(admin), bob.id).items] == [foreign.id]
    for refused in (
        lambda: list_tokens(session, caller, bob.id),
        lambda: revoke_token(session, caller, foreign.id),
        lambda: revoke_token(session, caller, new_id()),
        lambda: issue_token(session, make_caller(admin), new_id()),
        lambda: list_tokens(session, make_caller(admin), new_id()),
    ):
        with pytest.raises(NotFound):
            refused()
    for user in (ana, bob):  # whoever finds a token cannot make it last
        with pytest.raises(Forbidden):
            issue_token(session, caller, user.id)
    revoke_token(session, caller, mine.id)
    revoke_token(session, make_caller(admin), foreign.id)


def test_a_group_has_no_tokens(database: Database) -> None:
    with database.write_transaction() as session, pytest.raises(Invalid, match="to a member"):
        issue_token(session, OPERATOR, make_user(session, is_group=True).id)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lifetime": timedelta(0)}, "lifetime"),
        ({"lifetime": timedelta(seconds=-1)}, "lifetime"),
        ({"lifetime": timedelta.max}, "lifetime"),
        ({"note": "a\nb"}, "note"),
    ],
)
def test_a_wrong_lifetime_or_note_is_refused_before_any_sql(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        issue_token(Session(), OPERATOR, new_id(), **wrong)
