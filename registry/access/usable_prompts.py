"""Which prompts a caller may use for a prediction: the one query that decides it, and the recheck before the answer.

Nothing is cached. Both statements are built once for each shape of request; afterwards only their parameters change.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Self, TypeVar
from uuid import UUID

from sqlalchemy import (
    CTE,
    Boolean,
    ColumnElement,
    CompoundSelect,
    ScalarSelect,
    Select,
    Uuid,
    and_,
    bindparam,
    cast,
    null,
    or_,
    select,
    true,
    union,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import InstrumentedAttribute, aliased
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorType

from alacarte.api.limits import MAX_NAMED_SOURCES
from alacarte.api.literals import Composition, Role, Weighting
from registry.access.authentication import Credential, CredentialKind, identity_statement
from registry.access.caller import Caller
from registry.catalog.names import parse_name_or_id
from registry.db.database import Database
from registry.db.models.catalog import Source, Task
from registry.db.models.prompts import Prompt, Release, ReleasePrompt
from registry.db.models.users import Grant, Membership
from registry.errors import Invalid, NotFound, Unauthenticated
from registry.storage.keys import prompt_key

LookupBy = Literal["id", "name"]
AnyColumns = Any  # the columns of a statement are documented where it is built
T = TypeVar("T")


@dataclass(frozen=True)
class TaskConfig:
    """The settings of a task that a prediction needs."""

    id: UUID
    name: str
    backbone: str
    size: int | None
    identity: str | None
    composition: Composition
    weighting: Weighting
    labels: tuple[str, ...] | None

    @classmethod
    def from_task(cls, task: Task) -> Self:
        """Return the settings of a task's row."""
        values = {field.name: getattr(task, field.name) for field in fields(cls)}
        return cls(**values | {"labels": None if task.labels is None else tuple(task.labels)})


class UsablePrompt(NamedTuple):  # a dataclass takes five times as long, and each request makes hundreds, twice
    """A prompt that the caller may use."""

    id: UUID
    source_id: UUID
    shard_id: UUID
    generation: int
    digest: str
    size_bytes: int

    @property
    def key(self) -> str:
        """Return the key of its object, computed from the other columns so that the query need not fetch it."""
        return prompt_key(self.source_id, self.shard_id, self.generation, self.id)


@dataclass(frozen=True)
class UsablePromptSet:
    """The caller, the task, and the sources and prompts in it that the caller may use."""

    caller: Caller
    task: TaskConfig
    prompts: tuple[UsablePrompt, ...]  # sorted by id
    sources: tuple[UUID, ...]  # sorted; includes sources without a prompt


class _HeadRow(NamedTuple):
    """The first columns of the statement: the caller, the task and the release."""

    stored_value: str  # of the credential
    user_id: UUID
    role: Role
    task_id: UUID | None
    task_name: str
    backbone: str
    size: int | None
    identity: str | None
    composition: Composition
    weighting: Weighting
    labels: list[str] | None
    release_id: UUID | None


_TASK_COLUMNS = (
    Task.id,
    Task.name,
    Task.backbone,
    Task.size,
    Task.identity,
    Task.composition,
    Task.weighting,
    Task.labels,
)
_SOURCE_COLUMNS = (Source.id, Source.name)
_PROMPT_COLUMNS = tuple(getattr(Prompt, field) for field in UsablePrompt._fields)
_FIRST_SOURCE = len(_HeadRow._fields)  # the index of the first source column in a row
_FIRST_PROMPT = _FIRST_SOURCE + len(_SOURCE_COLUMNS)


def read_usable_prompts(
    database: Database,
    credential: Credential,
    *,
    task: str | UUID | None = None,
    release: str | UUID | None = None,
    sources: Collection[str | UUID] | None = None,
) -> UsablePromptSet:
    """Authenticate and return the prompts that the caller owns or was granted in a task, by one statement.

    The task may be omitted if there is only one. A release and a list of sources (names or ids) narrow the set and
    never widen it. A source that the caller may not use raises NotFound, whether it exists or not.
    """
    named_sources = None if sources is None else _parse_sources(sources)
    shape, parameters = _statement_shape(credential, task, release, named_sources)
    rows = database.fetch_rows(usable_prompts_statement(*shape), parameters)
    heads = [_HeadRow._make(row[:_FIRST_SOURCE]) for row in rows if row[0] is not None]
    if not heads or not credential.matches(heads[0].stored_value):
        raise Unauthenticated
    config = _task_config(heads, task)
    if release is not None and heads[0].release_id is None:
        raise NotFound("release", release)
    names = {row[_FIRST_SOURCE]: row[_FIRST_SOURCE + 1] for row in rows if row[_FIRST_SOURCE] is not None}
    _require_sources(named_sources or (), names)
    prompts = [UsablePrompt._make(row[_FIRST_PROMPT:]) for row in rows if row[_FIRST_PROMPT] is not None]
    prompts.sort(key=lambda prompt: prompt.id.int)  # comparing UUIDs themselves is ten times slower
    return UsablePromptSet(Caller(heads[0].user_id, heads[0].role), config, tuple(prompts), tuple(sorted(names)))


def recheck_usable_prompts(
    database: Database,
    credential: Credential,
    usable: UsablePromptSet,
    *,
    release: str | UUID | None = None,
    sources: Collection[str | UUID] | None = None,
) -> bool:
    """Return whether the caller may still use every prompt that `read_usable_prompts` returned for this request.

    Raises Unauthenticated if the credential has expired or was revoked. It costs half as much as the first query.
    """
    named_sources = None if sources is None else _parse_sources(sources)
    shape, parameters = _statement_shape(credential, usable.task.id, release, named_sources)
    rows = database.fetch_rows(recheck_statement(*shape), parameters)
    stored_value = next((row.stored_value for row in rows if row.stored_value is not None), None)
    if stored_value is None or not credential.matches(stored_value):
        raise Unauthenticated
    usable_now = {row.prompt_id for row in rows}
    return all(prompt.id in usable_now for prompt in usable.prompts)


@functools.cache
def usable_prompts_statement(
    kind: CredentialKind, task_by: LookupBy | None, release_by: LookupBy | None, has_named_sources: bool
) -> CompoundSelect[*tuple[AnyColumns, ...]]:
    """Build the statement that reads a task, the usable sources and the usable prompts of a credential.

    Each row is of one of three kinds, with NULL in the columns of the others, which stand in this order: _HeadRow,
    _SOURCE_COLUMNS, _PROMPT_COLUMNS. No row at all: the credential is not valid.
    """
    user = identity_statement(kind).cte("caller")
    scope = _select_scope(task_by, release_by)
    sources = _select_sources(user, scope, has_named_sources)
    no_head, no_source, no_prompt = (
        _typed_nulls(columns) for columns in ((*user.c, *scope.c), _SOURCE_COLUMNS, _PROMPT_COLUMNS)
    )
    return union_all(
        select(*user.c, *scope.c, *no_source, *no_prompt).select_from(user.outerjoin(scope, true())),
        select(*no_head, *sources.c, *no_prompt),
        select(*no_head, *no_source, *_PROMPT_COLUMNS).where(_is_usable(sources, scope, release_by)),
    )


@functools.cache
def recheck_statement(
    kind: CredentialKind, task_by: LookupBy | None, release_by: LookupBy | None, has_named_sources: bool
) -> CompoundSelect[*tuple[AnyColumns, ...]]:
    """Build the shorter statement of the recheck, with the columns `stored_value` and `prompt_id`.

    Each row has one of the two, and NULL in the other's column.
    """
    user = identity_statement(kind).cte("caller")
    scope = _select_scope(task_by, release_by)
    sources = _select_sources(user, scope, has_named_sources)
    no_value, no_prompt = _typed_nulls((user.c.stored_value, Prompt.id))
    return union_all(
        select(user.c.stored_value, no_prompt.label("prompt_id")),
        select(no_value, Prompt.id).where(_is_usable(sources, scope, release_by)),
    )


def _select_scope(task_by: LookupBy | None, release_by: LookupBy | None) -> CTE:
    """Select the task, and the release in it; two tasks if none was named and there are several."""
    release_id = Release.id if release_by else cast(null(), Uuid())
    scope: Select[*tuple[AnyColumns, ...]] = select(*_TASK_COLUMNS, release_id.label("release_id"))
    if release_by is not None:
        is_release = _equals(Release.id, Release.name, "release", release_by)
        scope = scope.outerjoin(Release, and_(Release.task_id == Task.id, is_release))
    if task_by is None:
        return scope.limit(2).cte("scope")
    return scope.where(_equals(Task.id, Task.name, "task", task_by)).cte("scope")


def _select_sources(user: CTE, scope: CTE, has_named_sources: bool) -> CTE:
    """Select the sources of the task that the user owns or was granted, directly or through a group."""
    user_id = _first_value(user.c.id)
    groups = select(Membership.group_id).where(Membership.member_id == user_id)
    principals = union_all(select(user.c.id), groups)
    granted = select(Grant.source_id).where(in_subquery(Grant.user_id, principals), Grant.right == "use")
    own_source = aliased(Source)
    owned = select(own_source.id).where(own_source.owner_id == user_id)
    sources = select(*_SOURCE_COLUMNS).where(
        in_subquery(Source.id, union(granted, owned)),
        Source.task_id == _first_value(scope.c.id),
        Source.erasure_id.is_(None),
    )
    if has_named_sources:
        has_id = Source.id.in_(bindparam("source_ids", expanding=True))
        sources = sources.where(or_(has_id, Source.name.in_(bindparam("source_names", expanding=True))))
    return sources.cte("usable_sources")


def _is_usable(sources: CTE, scope: CTE, release_by: LookupBy | None) -> ColumnElement[bool]:
    """Return the condition that a prompt belongs to one of the sources, and to the release if one is named."""
    has_source: ColumnElement[bool] = in_subquery(Prompt.source_id, select(sources.c.id))
    if release_by is None:
        return has_source
    # A lookup for each prompt: given a join, PostgreSQL would read the whole release instead.
    pin = select(ReleasePrompt.prompt_id).where(
        ReleasePrompt.release_id == _first_value(scope.c.release_id), ReleasePrompt.prompt_id == Prompt.id
    )
    return and_(has_source, pin.scalar_subquery().is_not(None))


def _first_value(column: ColumnElement[UUID]) -> ScalarSelect[UUID]:
    """Select the value in the first row; where there are two tasks, the request is refused afterwards."""
    return select(column).limit(1).scalar_subquery()


def _equals(
    id_column: InstrumentedAttribute[UUID], name_column: InstrumentedAttribute[str], parameter: str, by: LookupBy
) -> ColumnElement[bool]:
    column = id_column if by == "id" else name_column
    return column == bindparam(parameter, type_=column.type)


def _typed_nulls(columns: Any) -> list[ColumnElement[Any]]:  # Any: columns of all types
    # With types, because PostgreSQL would infer them from the first two of the three statements alone.
    return [cast(null(), column.type) for column in columns]


def _statement_shape(
    credential: Credential,
    task: str | UUID | None,
    release: str | UUID | None,
    named_sources: Collection[str | UUID] | None,
) -> tuple[tuple[CredentialKind, LookupBy | None, LookupBy | None, bool], dict[str, object]]:
    """Return the arguments of the statement builders, and the parameters of the statement."""
    parameters = dict(credential.parameters)
    task_by = _add_parameter(parameters, "task", task)
    release_by = _add_parameter(parameters, "release", release)
    if named_sources is not None:
        parameters["source_ids"] = _pad([source for source in named_sources if isinstance(source, UUID)])
        parameters["source_names"] = _pad([source for source in named_sources if isinstance(source, str)])
    return (credential.kind, task_by, release_by, named_sources is not None), parameters


def _add_parameter(parameters: dict[str, object], kind: str, name_or_id: str | UUID | None) -> LookupBy | None:
    if name_or_id is None:
        return None
    parameters[kind] = value = parse_name_or_id(kind, name_or_id)
    return "id" if isinstance(value, UUID) else "name"


def _parse_sources(sources: Collection[str | UUID]) -> frozenset[str | UUID]:
    if len(sources) > MAX_NAMED_SOURCES:
        raise Invalid(f"at most {MAX_NAMED_SOURCES} sources can be named at once, not {len(sources)}")
    return frozenset(parse_name_or_id("source", source) for source in sources)


def _pad(values: list[T]) -> list[T]:
    """Repeat the last value up to a power of two, so that few different statements are ever prepared."""
    return values + values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values)) if values else values


def _task_config(heads: Sequence[_HeadRow], task: str | UUID | None) -> TaskConfig:
    head = heads[0]
    if len(heads) > 1:
        raise Invalid("there are several tasks: name one")
    if head.task_id is None:
        raise Invalid("there is no task yet: ask an admin to create one") if task is None else NotFound("task", task)
    return TaskConfig(
        id=head.task_id,
        name=head.task_name,
        backbone=head.backbone,
        size=head.size,
        identity=head.identity,
        composition=head.composition,
        weighting=head.weighting,
        labels=None if head.labels is None else tuple(head.labels),
    )


def _require_sources(named_sources: Collection[str | UUID], names: Mapping[UUID, str]) -> None:
    usable = {*names, *names.values()} if named_sources else ()
    for source in named_sources:
        if source not in usable:
            raise NotFound("source", source)


class in_subquery(FunctionElement[bool]):  # noqa: N801  # reads as a function in a statement
    """The condition that a column has one of the few values of a subquery.

    A join would mean the same, but only we know that the subquery yields a handful of values. PostgreSQL would rather
    scan a table than look up as many as it expects, and SQLite would build an index for every query.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: Any, subquery: Any) -> None:  # Any: a column of any type, a statement of that column
        super().__init__(column, subquery.scalar_subquery())

    def self_group(self, against: OperatorType | None = None) -> "in_subquery":  # noqa: ARG002  # SQLAlchemy's signature
        return self  # a condition already; the `= 1` that SQLAlchemy adds on SQLite would prevent the use of indexes


@compiles(in_subquery, "postgresql")
def _in_subquery_on_postgresql(element: in_subquery, compiler: SQLCompiler, **kw: Any) -> str:  # Any: SQLAlchemy's own
    column, subquery = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{column} = ANY (ARRAY{subquery})"


@compiles(in_subquery, "sqlite")
def _in_subquery_on_sqlite(element: in_subquery, compiler: SQLCompiler, **kw: Any) -> str:
    column, subquery = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{column} IN {subquery}"
