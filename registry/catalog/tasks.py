"""Tasks: create, find, list, remove. Only admins create them; everybody with a token may see them."""

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
    """Create a task; without labels it has those of its sources."""
    require_admin(caller)
    name = _validate_task_name(name)
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
        labels=None if labels is None else _validate_labels(labels),
        composition=composition,
        weighting=weighting,
        recipe=_validate_recipe(recipe or {}),
        created_at=now(),
    )
    insert_unique(session, task, f"task {name!r} already exists: choose another name")
    chain.append_entry(session, caller.user_id, "task.created", task=task.id)
    return task


def find_task(session: Session, name_or_id: str | UUID) -> Task:
    """Find a task by name or id."""
    value = parse_name_or_id("task", name_or_id)
    is_match = Task.id == value if isinstance(value, UUID) else Task.name == value
    task = session.scalars(select(Task).where(is_match)).one_or_none()
    if task is None:
        raise NotFound("task", name_or_id)
    return task


def list_tasks(session: Session, after: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[Task]:
    """List all tasks, oldest first."""
    return read_page(session, select(Task), Task.id, after=after, limit=limit)


def remove_task(session: Session, caller: Caller, task_id: UUID) -> None:
    """Remove a task that has no sources and no releases."""
    require_admin(caller)
    # Locked, so that no source is added meanwhile.
    task = session.get(Task, task_id, with_for_update=True, populate_existing=True)
    if task is None:
        raise NotFound("task", task_id)
    if session.scalar(select(exists().where(Source.task_id == task_id))):
        raise Conflict(
            "the task has sources, or sources that are being forgotten: forget them, and wait for their erasures"
        )
    if session.scalar(select(exists().where(Release.task_id == task_id))):
        raise Conflict("the task has releases: remove them first")
    session.delete(task)
    chain.append_entry(session, caller.user_id, "task.removed", task=task_id)


def _validate_task_name(name: str) -> str:
    """Validate a name that is also one segment of a URL path."""
    name = validate_name("task", name)
    if "/" in name or name in (".", ".."):
        raise Invalid(
            f"the name of a task is part of addresses, as {quote(name)} cannot be: choose one without a slash"
        )
    return name


def _validate_labels(labels: Collection[str]) -> list[str]:
    if not 1 <= len(labels) <= MAX_LABELS:
        raise Invalid(f"a task has 1 to {MAX_LABELS} labels, not {len(labels)}; leave them out to take the sources'")
    return sorted({validate_text("a label", label, max_length=MAX_LABEL_LENGTH) for label in labels})


def _validate_recipe(recipe: Mapping[str, Setting]) -> dict[str, Setting]:
    """Validate the form of a recipe, flat and small; the trainer validates its settings."""
    validated: dict[str, Setting] = {}
    for name, value in recipe.items():
        name = validate_text("the name of a recipe setting", name)
        if isinstance(value, str):
            value = validate_text(f"the recipe setting {name!r}", value, min_length=0)
        elif not isinstance(value, bool | int | float) or not abs(value) <= sys.float_info.max:
            raise Invalid(f"the recipe setting {name!r} is a text, a finite number, true or false, not {value!r}")
        validated[name] = value
    if len(json.dumps(validated).encode()) > MAX_RECIPE_BYTES:
        raise Invalid(
            f"the recipe has at most {MAX_RECIPE_BYTES} bytes as JSON: leave out settings that have their default"
        )
    return validated
