"""Sources: create, find, list, rename, and transfer to another owner."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.source_rights import is_visible_to, require_right
from registry.access.users import require_user
from registry.catalog.names import parse_name_or_id, validate_name
from registry.datasets.member_names import quote
from registry.db.clock import now
from registry.db.database import insert_unique
from registry.db.models.catalog import Sample, Shard, Source, Task
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Conflict, Forbidden, Invalid, NotFound
from registry.ids import new_id
from registry.log import chain
from registry.training.queue import is_trained

KEY_BYTES = 32


@dataclass(frozen=True)
class SourceSummary:
    """A source in a list."""

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    samples: int
    shards: int
    trained: int  # how many of the shards have a prompt


def create_source(session: Session, caller: Caller, task_id: UUID, name: str, owner_id: UUID | None = None) -> Source:
    """Create a source without pictures, for prompts that are trained elsewhere; the caller owns it by default."""
    name = validate_name("source", name)
    source = insert_source(
        session, caller, task_id, name, owner_id, source_id=new_id(), key=secrets.token_bytes(KEY_BYTES)
    )
    chain.append_entry(session, caller.user_id, "source.created", source=source.id, task=task_id, owner=source.owner_id)
    return source


def precheck_new_source(session: Session, caller: Caller, task_id: UUID, name: str, owner_id: UUID | None) -> Task:
    """Return the task if the caller may create a source of that name in it now; otherwise raise why not."""
    task = _require_task_and_owner(session, caller, task_id, owner_id)
    same_name = select(Source.id).where(Source.task_id == task_id, Source.name == name)
    if session.execute(same_name).first() is not None:
        raise Conflict(_name_taken(name))
    return task


def insert_source(
    session: Session, caller: Caller, task_id: UUID, name: str, owner_id: UUID | None, *, source_id: UUID, key: bytes
) -> Source:
    """Insert the row of a new source, if the caller may and the name is free; the caller writes the log entry."""
    _require_task_and_owner(session, caller, task_id, owner_id)
    source = Source(
        id=source_id, task_id=task_id, owner_id=owner_id or caller.user_id, name=name, key=key, created_at=now()
    )
    insert_unique(session, source, _name_taken(name))
    return source


def find_source(session: Session, caller: Caller, task_id: UUID | None, name_or_id: str | UUID) -> Source:
    """Find a source that the caller may see by id, or by name; a name in several tasks needs the task too."""
    value = parse_name_or_id("source", name_or_id)
    statement = select(Source).where(is_visible_to(caller))
    statement = statement.where(Source.id == value if isinstance(value, UUID) else Source.name == value)
    if task_id is not None:
        statement = statement.where(Source.task_id == task_id)
    matches = session.scalars(statement.limit(2)).all()
    if not matches:
        raise NotFound("source", name_or_id)
    if len(matches) > 1:
        raise Conflict(f"several tasks have a source {quote(str(name_or_id))}: name the task too")
    return matches[0]


def list_sources(
    session: Session,
    caller: Caller,
    task_id: UUID | None = None,
    after: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[SourceSummary]:
    """List the sources that the caller may see, oldest first."""
    statement = select(Source).where(is_visible_to(caller))
    if task_id is not None:
        statement = statement.where(Source.task_id == task_id)
    sources = read_page(session, statement, Source.id, after=after, limit=limit)
    return _summarise(session, sources)


def source_name(source: Source) -> str:
    """Return the name of a source that is not being forgotten."""
    assert source.name is not None
    return source.name


def rename_source(session: Session, caller: Caller, source_id: UUID, name: str) -> Source:
    """Rename the source; requires the right to manage it."""
    name = validate_name("source", name)
    source = require_right(session, caller, "manage", source_id)
    if name != source.name:
        try:
            with session.begin_nested():
                source.name = name
                session.flush()
        except IntegrityError as error:
            raise Conflict(_name_taken(name)) from error
        chain.append_entry(session, caller.user_id, "source.renamed", source=source.id)
    return source


def transfer_source(session: Session, caller: Caller, source_id: UUID, owner_id: UUID) -> Source:
    """Transfer the source to another owner, for admins and its owner; the former owner keeps no right to it."""
    source = require_right(session, caller, "manage", source_id)
    if not caller.is_admin and source.owner_id != caller.user_id:
        raise Forbidden("only the owner of a source and admins may transfer it: ask one of them")
    _require_not_group(session, owner_id)
    if owner_id != source.owner_id:
        source.owner_id = owner_id
        session.flush()
        chain.append_entry(session, caller.user_id, "source.transferred", source=source.id, owner=owner_id)
    return source


def _require_task_and_owner(session: Session, caller: Caller, task_id: UUID, owner_id: UUID | None) -> Task:
    """Return the task; it and the owner cannot be removed until the transaction ends."""
    if caller.role not in ("admin", "owner"):
        raise Forbidden("creating sources requires the role 'owner': ask an admin for it")
    if not caller.is_admin and owner_id not in (None, caller.user_id):
        raise Forbidden("only admins may create sources for others: ask an admin")
    statement = select(Task).where(Task.id == task_id).with_for_update(read=True, key_share=True)
    task = session.scalars(statement).one_or_none()
    if task is None:
        raise NotFound("task", task_id)
    if (owner := owner_id or caller.user_id) is not None:
        _require_not_group(session, owner)
    return task


def _require_not_group(session: Session, user_id: UUID) -> None:
    if require_user(session, user_id).is_group:
        raise Invalid("a group cannot own a source: choose a member as the owner, and grant the group what it needs")


def _name_taken(name: str) -> str:
    return f"the task has a source {quote(name)} already: choose another name, or add pictures to it"


def _summarise(session: Session, sources: Page[Source]) -> Page[SourceSummary]:
    ids = [source.id for source in sources.items]
    is_current = Shard.source_id.in_(ids) & Shard.erasure_id.is_(None)
    shards = _read_counts(session, select(Shard.source_id, func.count()).where(is_current).group_by(Shard.source_id))
    trained = _read_counts(
        session, select(Shard.source_id, func.count()).where(is_current, is_trained(Shard)).group_by(Shard.source_id)
    )
    counted = select(Sample.source_id, func.count()).where(Sample.source_id.in_(ids))
    samples = _read_counts(session, counted.group_by(Sample.source_id))
    return sources.map(
        lambda source: SourceSummary(
            id=source.id,
            task_id=source.task_id,
            name=source_name(source),
            owner_id=source.owner_id,
            created_at=source.created_at,
            samples=samples.get(source.id, 0),
            shards=shards.get(source.id, 0),
            trained=trained.get(source.id, 0),
        )
    )


def _read_counts(session: Session, statement: Select[UUID, int]) -> dict[UUID, int]:
    return {row[0]: row[1] for row in session.execute(statement)}
