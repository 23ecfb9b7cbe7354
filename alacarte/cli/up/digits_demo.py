"""The demo of a first start: handwritten digits in four sources, and two people who may use two of them each.

It is brought up once, in a registry that has nothing else. What was begun and interrupted is finished by the next
start; what was finished is never made again, whatever became of it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from sqlalchemy.orm import Session

from alacarte.cli.actions.digits import TestPicture, write_digits
from registry.access.caller import OPERATOR
from registry.access.grants import grant
from registry.access.tokens import issue_token
from registry.access.users import create_user, find_user
from registry.catalog.sources import find_source
from registry.catalog.tasks import Setting, create_task, find_task, list_tasks
from registry.errors import NotFound
from registry.ingest.upload import upload_source
from registry.registry import Registry

TASK = "digits"
SIZE = 112  # patches of 14 and of 16 pixels both divide it, so that either backbone will do
RECIPE: Mapping[str, Setting] = {"epochs": 12, "batch": 16, "augment": "none"}
PICTURES = 60  # of each source
TESTS = 40
SEED = 0
# Eva's two know half of the digits each: when one is forgotten, she is never told its digits again.
GRANTS: Mapping[str, tuple[str, ...]] = {"eva": ("ann", "bob"), "fay": ("cem", "dee")}
FORGOTTEN, ASKS_AGAIN = "bob", "eva"
UNFINISHED = "unfinished"  # the folder of what is still to be taken in


@dataclass(frozen=True)
class Demo:
    """What was brought up, and how its people prove who they are."""

    sources: Mapping[str, UUID]
    pictures: tuple[TestPicture, ...]
    tokens: Mapping[str, str] = field(repr=False)


def is_wanted(registry: Registry, folder: Path) -> bool:
    """Whether there is nothing yet, or a demo that was begun and not finished."""
    if folder.exists():
        return (folder / UNFINISHED).exists()
    with registry.database.reading() as session:
        return not list_tasks(session, limit=1).items


def bring_up(registry: Registry, folder: Path, backbone: str) -> Mapping[str, UUID]:
    """The task, its sources and its people, as far as they are not there; training is the worker's."""
    folders, _ = write_digits(folder / UNFINISHED, PICTURES, TESTS, SEED)
    with registry.database.writing() as session:
        task_id = _task(session, backbone)
    sources: dict[str, UUID] = {}
    for name, pictures in folders.items():
        found = _source(registry, task_id, name)
        sources[name] = found or upload_source(registry, OPERATOR, task_id, name, pictures).source_id
    with registry.database.writing() as session:
        for person, names in GRANTS.items():
            user_id = _user(session, person)
            for name in names:
                grant(session, OPERATOR, user_id, sources[name], "use")
    return sources


def hand_out(registry: Registry, folder: Path, sources: Mapping[str, UUID]) -> Demo:
    """The demo once all is trained: its people get tokens, and pictures to ask about are laid out."""
    _, tests = write_digits(folder / UNFINISHED, PICTURES, TESTS, SEED)
    kept = folder / "pictures"
    kept.mkdir(exist_ok=True)
    pictures = tuple(TestPicture(Path(shutil.copy(test.path, kept)), test.label) for test in tests)
    with registry.database.writing() as session:
        tokens = {person: _token(session, person) for person in GRANTS}
    return Demo(sources, pictures, tokens)


def finish(folder: Path) -> None:
    """Once everything was shown: what was taken in is removed here, and the demo never comes again."""
    shutil.rmtree(folder / UNFINISHED)


def _task(session: Session, backbone: str) -> UUID:
    try:
        return find_task(session, TASK).id
    except NotFound:
        return create_task(session, OPERATOR, TASK, backbone=backbone, size=SIZE, recipe=RECIPE).id


def _source(registry: Registry, task_id: UUID, name: str) -> UUID | None:
    try:
        with registry.database.reading() as session:
            return find_source(session, OPERATOR, task_id, name).id
    except NotFound:
        return None


def _user(session: Session, name: str) -> UUID:
    try:
        return find_user(session, OPERATOR, name).id
    except NotFound:
        return create_user(session, OPERATOR, name).id


def _token(session: Session, person: str) -> str:
    return issue_token(session, OPERATOR, _user(session, person), note="of the demo").text
