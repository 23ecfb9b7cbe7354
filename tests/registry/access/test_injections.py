"""Text that looks like SQL is a name like any other, through every function that takes one."""

import pytest
from sqlalchemy import func, select

from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.access.tokens import issue_token, parse_token
from registry.access.usable_prompts import read_usable_prompts
from registry.access.users import create_user, find_user
from registry.catalog.releases import find_release, pin_release
from registry.catalog.tasks import create_task, find_task
from registry.db.database import Database
from registry.db.models.users import User
from registry.db.paging import read_page
from registry.errors import Invalid, NotFound
from tests.registry.factories import make_prompt, make_shard, make_source, make_user

INJECTIONS = [
    "'; DROP TABLE users; --",
    "' OR '1'='1",
    '" OR ""="',
    "') OR 1=1 --",
    "1; SELECT pg_sleep(10)",
    "' UNION SELECT hash FROM tokens --",
    "%(prefix)s",
    "%s %d %",
    ":task",
    "?",
    "$1",
    "\\'; --",
    "{0}",
    "/* */",
    "`users`",
    "NULL",
    "_%",
]


def test_text_that_looks_like_sql_is_a_name(database: Database) -> None:
    for text in INJECTIONS:
        name = text.replace("/", "|")  # a task's name is part of addresses
        with database.write_transaction() as session:
            task = create_task(session, OPERATOR, name, backbone=text, labels=[text], recipe={text: text})
            user = create_user(session, OPERATOR, text)
            token = issue_token(session, OPERATOR, user.id, note=text)
            source = make_source(session, task, name=text)
            prompt = make_prompt(session, make_shard(session, source))
            grant_right(session, OPERATOR, user.id, source.id, "use")
            release = pin_release(session, OPERATOR, task.id, text)
        with database.read_transaction() as session:
            assert find_user(session, OPERATOR, text).id == user.id
            assert find_task(session, name).labels == [text]
            assert find_release(session, task.id, text).id == release.id
        found = read_usable_prompts(database, parse_token(token.text), task=name, release=text, sources=[text])
        assert [p.id for p in found.prompts] == [prompt.id]
        assert token.token.note == text
    with database.read_transaction() as session:
        assert session.scalar(select(func.count()).select_from(User)) == len(INJECTIONS)


def test_text_that_looks_like_sql_finds_nothing(database: Database) -> None:
    with database.write_transaction() as session:
        task = create_task(session, OPERATOR, "flowers", backbone="vit")
        user = make_user(session)
        source = make_source(session, task, user)
        make_prompt(session, make_shard(session, source))
        pin_release(session, OPERATOR, task.id, "spring")
        token = issue_token(session, OPERATOR, user.id).text
    for text in INJECTIONS:
        with database.read_transaction() as session:
            for find in (
                lambda text=text: find_user(session, OPERATOR, text),
                lambda text=text: find_task(session, text),
                lambda text=text: find_release(session, task.id, text),
                lambda text=text: read_usable_prompts(database, parse_token(token), task=text),
                lambda text=text: read_usable_prompts(database, parse_token(token), release=text),
                lambda text=text: read_usable_prompts(database, parse_token(token), sources=[text]),
            ):
                with pytest.raises(NotFound):
                    find()
            with pytest.raises(Invalid):
                read_page(session, select(User), User.id, after=text, limit=1)
