"""Sources: making, finding, listing and renaming them, and handing them to another owner."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.rights import is_visible_to, require_right
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
    """A source as lists show it."""

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    samples: int
    shards: int
    trained: int  # of the shards, those that have their prompt


def create_source(session: Session, caller: Caller, task_id: UUID, name: str, owner_id: UUID | None = None) -> Source:
    """A source without pictures, as for prompts that are trained elsewhere; by default it belongs to the caller."""
    name = validate_name("source", name)
    source = insert_source(
        session, caller, task_id, name, owner_id, source_id=new_id(), key=secrets.token_bytes(KEY_BYTES)
    )
    chain.append_entry(session, caller.user_id, "source.created", source=source.id, task=task_id, owner=source.owner_id)
    return source


def precheck_new_source(session: Session, caller: Caller, task_id: UUID, name: str, owner_id: UUID | None) -> Task:
    """The task, if the caller may make a source of that name in it now."""
    task = _foundation(session, caller, task_id, owner_id)
    taken = select(Source.id).where(Source.task_id == task_id, Source.name == name)
    if session.execute(taken).first() is not None:
        raise Conflict(_taken(name))
    return task


def insert_source(
    session: Session, caller: Caller, task_id: UUID, name: str, owner_id: UUID | None, *, source_id: UUID, key: bytes
) -> Source:
    """The row of a new source, if the caller may make it and the name is free; the log is left to who calls."""
    _foundation(session, caller, task_id, owner_id)
    source = Source(
        id=source_id, task_id=task_id, owner_id=owner_id or caller.user_id, name=name, key=key, created_at=now()
    )
    insert_unique(session, source, _taken(name))
    return source


def find_source(session: Session, caller: Caller, task_id: UUID | None, name_or_id: str | UUID) -> Source:
    """The source that the caller may see, by its id, or by its name, which may need its task to be clear."""
    wanted = parse_name_or_id("source", name_or_id)
    statement = select(Source).where(is_visible_to(caller))
    statement = statement.where(Source.id == wanted if isinstance(wanted, UUID) else Source.name == wanted)
    if task_id is not None:
        statement = statement.where(Source.task_id == task_id)
    found = session.scalars(statement.limit(2)).all()
    if not found:
        raise NotFound("source", name_or_id)
    if len(found) > 1:
        raise Conflict(f"several tasks have a source {quote(str(name_or_id))}: name the task too")
    return found[0]


def list_sources(
    session: Session,
    caller: Caller,
    task_id: UUID | None = None,
    after: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[SourceSummary]:
    """What the caller may see, oldest first."""
    statement = select(Source).where(is_visible_to(caller))
    if task_id is not None:
        statement = statement.where(Source.task_id == task_id)
    sources = read_page(session, statement, Source.id, after=after, limit=limit)
    return _summaries(session, sources)


def source_name(source: Source) -> str:
    """The name of a source that is not being forgotten."""
    assert source.name is not None
    return source.name


def rename_source(session: Session, caller: Caller, source_id: UUID, name: str) -> Source:
    """Gives the source another name, for whoever manages it."""
    name = validate_name("source", name)
    source = require_right(session, caller, "manage", source_id)
    if name != source.name:
        try:
            with session.begin_nested():
                source.name = name
                session.flush()
        except IntegrityError as error:
            raise Conflict(_taken(name)) from error
        chain.append_entry(session, caller.user_id, "source.renamed", source=source.id)
    return source


def transfer_source(session: Session, caller: Caller, source_id: UUID, owner_id: UUID) -> Source:
    """Hands the source to another owner, for admins and the owner; whoever had it keeps no right by that."""
    source = require_right(session, caller, "manage", source_id)
    if not caller.is_admin and source.owner_id != caller.user_id:
        raise Forbidden("only the owner of a source and admins hand it on: ask one of them")
    _require_person(session, owner_id)
    if owner_id != source.owner_id:
        source.owner_id = owner_id
        session.flush()
        chain.append_entry(session, caller.user_id, "source.handed-on", source=source.id, owner=owner_id)
    return source


def _foundation(session: Session, caller: Caller, task_id: UUID, owner_id: UUID | None) -> Task:
    """The task, kept from vanishing until the transaction ends, and the owner too."""
    if caller.role not in ("admin", "owner"):
        raise Forbidden("making sources takes the role 'owner': ask an admin for it")
    if not caller.is_admin and owner_id not in (None, caller.user_id):
        raise Forbidden("making sources for somebody else is for admins: ask one")
    kept = select(Task).where(Task.id == task_id).with_for_update(read=True, key_share=True)
    task = session.scalars(kept).one_or_none()
    if task is None:
        raise NotFound("task", task_id)
    if (owner := owner_id or caller.user_id) is not None:
        _require_person(session, owner)
    return task


def _require_person(session: Session, user_id: UUID) -> None:
    if require_user(session, user_id).is_group:
        raise Invalid("a group owns no sources: name one of its members, and grant the group what it needs")


def _taken(name: str) -> str:
    return f"the task has a source {quote(name)} already: choose another name, or add pictures to that one"


def _summaries(session: Session, sources: Page[Source]) -> Page[SourceSummary]:
    ids = [source.id for source in sources.items]
    there = Shard.source_id.in_(ids) & Shard.erasure_id.is_(None)
    shards = _counts(session, select(Shard.source_id, func.count()).where(there).group_by(Shard.source_id))
    trained = _counts(
        session, select(Shard.source_id, func.count()).where(there, is_trained(Shard)).group_by(Shard.source_id)
    )
    owned = Sample.source_id.in_(ids)
    samples = _counts(session, select(Sample.source_id, func.count()).where(owned).group_by(Sample.source_id))
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


def _counts(session: Session, statement: Select[UUID, int]) -> dict[UUID, int]:
    return {row[0]: row[1] for row in session.execute(statement)}
