"""Tasks: admins create them from valid values, everybody finds them, and a task in use cannot be removed."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR
from registry.catalog.releases import pin_release, remove_release
from registry.catalog.tasks import Setting, create_task, find_task, list_tasks, remove_task
from registry.db.database import Database
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.ids import new_id
from tests.registry.factories import make_caller, make_prompt, make_shard, make_source, make_task, make_user

BACKBONE = "vit_tiny_patch16_224"


def test_a_task_is_found_by_name_and_by_id_with_what_it_was_given(database: Database) -> None:
    recipe: dict[str, Setting] = {"epochs": 20, "rate": 0.1, "augment": True, "variant": "deep"}
    with database.write_transaction() as session:
        made = create_task(
            session,
            OPERATOR,
            "flowers",
            backbone=BACKBONE,
            size=160,
            labels=["tulip", "Zoe\u0308", "aster", "tulip"],
            composition="concat",
            weighting="prototypes",
            recipe=recipe,
        )
    with database.read_transaction() as session:
        found = find_task(session, "flowers")
        assert found.id == made.id == find_task(session, str(made.id)).id
        assert found.labels == ["Zo\u00eb", "aster", "tulip"]
        assert (found.size, found.composition, found.weighting) == (160, "concat", "prototypes")
        assert found.recipe == recipe
        assert found.identity is None


def test_a_task_without_labels_accepts_all_labels(database: Database) -> None:
    with database.write_transaction() as session:
        create_task(session, OPERATOR, "flowers", backbone=BACKBONE)
    with database.read_transaction() as session:
        found = find_task(session, "flowers")
        assert (found.labels, found.recipe, found.composition, found.weighting) == (None, {}, "average", "none")


@pytest.mark.parametrize("name", ["a/b", "/", ".", ".."])
def test_a_name_that_cannot_be_a_url_segment_is_refused(name: str, database: Database) -> None:
    with database.write_transaction() as session, pytest.raises(Invalid, match="slash"):
        create_task(session, OPERATOR, name, backbone=BACKBONE)


BAD: dict[str, dict[str, Any]] = {
    "no labels": {"labels": []},
    "an empty label": {"labels": ["a", ""]},
    "a label of spaces": {"labels": ["  "]},
    "a long label": {"labels": ["x" * 129]},
    "a label with a line break": {"labels": ["a\nb"]},
    "too many labels": {"labels": [str(number) for number in range(50_001)]},
    "an unknown composition": {"composition": "sum"},
    "an unknown weighting": {"weighting": "some"},
    "no size": {"size": 0},
    "a huge size": {"size": 100_000},
    "no backbone": {"backbone": ""},
    "a nested recipe": {"recipe": {"a": {"b": 1}}},
    "a list in the recipe": {"recipe": {"a": [1]}},
    "nothing in the recipe": {"recipe": {"a": None}},
    "NaN in the recipe": {"recipe": {"a": float("nan")}},
    "infinity in the recipe": {"recipe": {"a": float("inf")}},
    "a long recipe": {"recipe": {f"word {number}": "x" * 100 for number in range(40)}},
    "a NUL in the recipe": {"recipe": {"a": "\0"}},
    "a number beyond floats": {"recipe": {"a": 10**400}},
}


@pytest.mark.parametrize("why", BAD)
def test_a_bad_value_is_refused_in_one_line_before_any_sql(why: str) -> None:
    nowhere = Session()

    with pytest.raises(Invalid) as refusal:
        create_task(nowhere, OPERATOR, "flowers", **{"backbone": BACKBONE, **BAD[why]})

    assert str(refusal.value).isprintable()


def test_a_name_that_is_taken_is_a_conflict(session: Session) -> None:
    create_task(session, OPERATOR, "flowers", backbone=BACKBONE)
    with pytest.raises(Conflict):
        create_task(session, OPERATOR, "flowers", backbone=BACKBONE)


def test_only_admins_make_and_remove_tasks(session: Session) -> None:
    task = make_task(session)
    for role in ("owner", "predictor"):
        caller = make_caller(make_user(session, role=role))
        with pytest.raises(Forbidden):
            create_task(session, caller, "x", backbone=BACKBONE)
        with pytest.raises(Forbidden):
            remove_task(session, caller, task.id)
    remove_task(session, make_caller(make_user(session, role="admin")), task.id)
    with pytest.raises(NotFound):
        find_task(session, task.id)
    with pytest.raises(NotFound):
        remove_task(session, OPERATOR, task.id)


def test_a_task_with_sources_or_releases_stays(session: Session) -> None:
    task = make_task(session)
    source = make_source(session, task)
    prompt = make_prompt(session, make_shard(session, source))
    release = pin_release(session, OPERATOR, task.id, "spring")
    with pytest.raises(Conflict, match="sources"):
        remove_task(session, OPERATOR, task.id)
    source.name, source.erasure_id = None, new_id()
    with pytest.raises(Conflict, match="being forgotten"):
        remove_task(session, OPERATOR, task.id)
    session.delete(prompt)
    session.flush()
    session.delete(source)
    session.flush()
    with pytest.raises(Conflict, match="releases"):
        remove_task(session, OPERATOR, task.id)
    remove_release(session, OPERATOR, release.id)
    remove_task(session, OPERATOR, task.id)


def test_tasks_are_listed_the_oldest_first(session: Session) -> None:
    made = [make_task(session).id for _ in range(3)]
    first = list_tasks(session, limit=2)
    rest = list_tasks(session, after=first.next, limit=2)

    assert [task.id for task in (*first.items, *rest.items)] == made
