"""Tasks: label spaces on a backbone, which admins make and everybody with a token may see."""

import json
import sys
from collections.abc import Collection, Mapping
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_LABELS, MAX_RECIPE_BYTES
from alacarte.api.literals import Composition, Weighting
from registry.access.caller import Caller, require_admin
from registry.catalog.names import parse_name_or_id, validate_name, validate_text
from registry.datasets.member_names import quote
from registry.db.clock import now
from registry.db.database import insert_unique
from registry.db.models.catalog import COMPOSITIONS, WEIGHTINGS, Source, Task
from registry.db.models.prompts import Release
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Conflict, Invalid, NotFound
from registry.ids import new_id
from registry.log import chain

MAX_LABEL_LENGTH = 128  # as of the labels that sources bring
MAX_SIZE = 4096

Setting = str | int | float | bool


def create_task(
    session: Session,
    caller: Caller,
    name: str,
    *,
    backbone: str,
    size: int | None = None,
    labels: Collection[str] | None = None,
    composition: Composition = "average",
    weighting: Weighting = "none",
    recipe: Mapping[str, Setting] | None = None,
) -> Task:
    """A new task; without labels it has those that its sources bring."""
    require_admin(caller)
    name = _checked_task_name(name)
    if size is not None and not 1 <= size <= MAX_SIZE:
        raise Invalid(f"the size of pictures is 1 to {MAX_SIZE} pixels, not {size}")
    if composition not in COMPOSITIONS:
        raise Invalid(f"the composition is one of {', '.join(COMPOSITIONS)}")
    if weighting not in WEIGHTINGS:
        raise Invalid(f"the weighting is one of {', '.join(WEIGHTINGS)}")
    task = Task(
        id=new_id(),
        name=name,
        backbone=validate_text("the backbone's name", backbone),
        size=size,
        identity=None,
        labels=None if labels is None else _checked_labels(labels),
        composition=composition,
        weighting=weighting,
        recipe=_checked_recipe(recipe or {}),
        created_at=now(),
    )
    insert_unique(session, task, f"there is a task {name!r} already: choose another name")
    chain.append_entry(session, caller.user_id, "task.created", task=task.id)
    return task


def find_task(session: Session, name_or_id: str | UUID) -> Task:
    """The task of that name or id."""
    wanted = parse_name_or_id("task", name_or_id)
    is_it = Task.id == wanted if isinstance(wanted, UUID) else Task.name == wanted
    task = session.scalars(select(Task).where(is_it)).one_or_none()
    if task is None:
        raise NotFound("task", name_or_id)
    return task


def list_tasks(session: Session, after: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[Task]:
    """All tasks, the oldest first."""
    return read_page(session, select(Task), Task.id, after=after, limit=limit)


def remove_task(session: Session, caller: Caller, task_id: UUID) -> None:
    """Removes a task in which nothing is left."""
    require_admin(caller)
    # Locked, so that nobody puts a source into it meanwhile.
    task = session.get(Task, task_id, with_for_update=True, populate_existing=True)
    if task is None:
        raise NotFound("task", task_id)
    if session.scalar(select(exists().where(Source.task_id == task_id))):
        raise Conflict("the task has sources, or some that are still being forgotten: forget them and wait")
    if session.scalar(select(exists().where(Release.task_id == task_id))):
        raise Conflict("the task has releases: remove them first")
    session.delete(task)
    chain.append_entry(session, caller.user_id, "task.removed", task=task_id)


def _checked_task_name(name: str) -> str:
    """A name that can stand in an address as one part of it, as a task's does."""
    name = validate_name("task", name)
    if "/" in name or name in (".", ".."):
        raise Invalid(
            f"the name of a task is part of addresses, as {quote(name)} cannot be: choose one without a slash"
        )
    return name


def _checked_labels(labels: Collection[str]) -> list[str]:
    if not 1 <= len(labels) <= MAX_LABELS:
        raise Invalid(f"a task has 1 to {MAX_LABELS} labels, not {len(labels)}; leave them out to take the sources'")
    return sorted({validate_text("a label", label, max_length=MAX_LABEL_LENGTH) for label in labels})


def _checked_recipe(recipe: Mapping[str, Setting]) -> dict[str, Setting]:
    """The recipe as it is kept: flat and small. Whether its words mean something is for the trainer to say."""
    checked: dict[str, Setting] = {}
    for word, value in recipe.items():
        word = validate_text("a word of the recipe", word)
        if isinstance(value, str):
            value = validate_text(f"{word!r} of the recipe", value, min_length=0)
        elif not isinstance(value, bool | int | float) or not abs(value) <= sys.float_info.max:
            raise Invalid(f"{word!r} of the recipe is a text, a finite number, true or false")
        checked[word] = value
    if len(json.dumps(checked).encode()) > MAX_RECIPE_BYTES:
        raise Invalid(f"the recipe has at most {MAX_RECIPE_BYTES} bytes as JSON: leave the defaults out")
    return checked
