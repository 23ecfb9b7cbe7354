"""The one statement that says what a caller may use: built once for each shape of question, then only bound."""

import functools
from typing import Any, Literal, NamedTuple
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

from alacarte.api.literals import Composition, Role, Weighting
from registry.access.credentials import CredentialKind, identity_statement
from registry.db.models.catalog import Source, Task
from registry.db.models.prompts import Prompt, Release, ReleasePrompt
from registry.db.models.users import Grant, Membership

By = Literal["id", "name"]
Rows = Any  # of a statement: their columns are told where they are made

TASK_COLUMNS = (
    Task.id,
    Task.name,
    Task.backbone,
    Task.size,
    Task.identity,
    Task.composition,
    Task.weighting,
    Task.labels,
)
SOURCE_COLUMNS = (Source.id, Source.name)
PROMPT_COLUMNS = (
    Prompt.id,
    Prompt.source_id,
    Prompt.shard_id,
    Prompt.generation,
    Prompt.digest,
    Prompt.size_bytes,
)


class HeadRow(NamedTuple):
    """The first columns: a task that was meant, if there is one, with who asks and the release."""

    kept: str  # of the credential
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


@functools.cache
def usable_prompts_statement(
    kind: CredentialKind, task_by: By | None, release_by: By | None, is_narrowed: bool
) -> CompoundSelect[*tuple[Rows, ...]]:
    """Build the statement that reads a task, the usable sources and the usable prompts of a credential.

    Each row is of one of three kinds, with NULL in the columns of the others, which stand in this order: HeadRow,
    SOURCE_COLUMNS, PROMPT_COLUMNS. No row at all: the credential is not valid.
    """
    who = identity_statement(kind).cte("who")
    what = _what(task_by, release_by)
    open_sources = _open_sources(who, what, is_narrowed)
    no_head, no_source, no_prompt = (_nulls(columns) for columns in ((*who.c, *what.c), SOURCE_COLUMNS, PROMPT_COLUMNS))
    return union_all(
        select(*who.c, *what.c, *no_source, *no_prompt).select_from(who.outerjoin(what, true())),
        select(*no_head, *open_sources.c, *no_prompt),
        select(*no_head, *no_source, *PROMPT_COLUMNS).where(_is_served(open_sources, what, release_by)),
    )


@functools.cache
def recheck_statement(
    kind: CredentialKind, task_by: By | None, release_by: By | None, is_narrowed: bool
) -> CompoundSelect[*tuple[Rows, ...]]:
    """Build the shorter statement of the recheck: `kept` of the credential, and `prompt_id` of each usable prompt.

    Each row has one of the two, and NULL in the other's column.
    """
    who = identity_statement(kind).cte("who")
    what = _what(task_by, release_by)
    open_sources = _open_sources(who, what, is_narrowed)
    no_proof, no_prompt = _nulls((who.c.kept, Prompt.id))
    return union_all(
        select(who.c.kept, no_prompt.label("prompt_id")),
        select(no_proof, Prompt.id).where(_is_served(open_sources, what, release_by)),
    )


def _is_served(open_sources: CTE, what: CTE, release_by: By | None) -> ColumnElement[bool]:
    """The condition that a prompt is of one of the sources, and in the release."""
    is_open: ColumnElement[bool] = in_subquery(Prompt.source_id, select(open_sources.c.id))
    if release_by is None:
        return is_open
    # Asked of each prompt: as a join, PostgreSQL would read the whole release instead.
    pin = select(ReleasePrompt.prompt_id).where(
        ReleasePrompt.release_id == _the_one(what.c.release_id), ReleasePrompt.prompt_id == Prompt.id
    )
    return and_(is_open, pin.scalar_subquery().is_not(None))


def _what(task_by: By | None, release_by: By | None) -> CTE:
    """The task, and the release in it; two tasks if none was named and there are several."""
    release_id = Release.id if release_by else cast(null(), Uuid())
    what: Select[*tuple[Rows, ...]] = select(*TASK_COLUMNS, release_id.label("release_id"))
    if release_by is not None:
        is_meant = _is_called(Release.id, Release.name, "release", release_by)
        what = what.outerjoin(Release, and_(Release.task_id == Task.id, is_meant))
    if task_by is None:
        return what.limit(2).cte("what")
    return what.where(_is_called(Task.id, Task.name, "task", task_by)).cte("what")


def _open_sources(who: CTE, what: CTE, is_narrowed: bool) -> CTE:
    """The sources of the task that are the holder's own or granted, to them or to a group that they are in."""
    holder = _the_one(who.c.id)
    groups = select(Membership.group_id).where(Membership.member_id == holder)
    identities = union_all(select(who.c.id), groups)
    granted = select(Grant.source_id).where(in_subquery(Grant.user_id, identities), Grant.right == "use")
    owned = aliased(Source)
    own = select(owned.id).where(owned.owner_id == holder)
    may = select(*SOURCE_COLUMNS).where(
        in_subquery(Source.id, union(granted, own)),
        Source.task_id == _the_one(what.c.id),
        Source.erasure_id.is_(None),
    )
    if is_narrowed:
        is_wished = Source.id.in_(bindparam("wished_ids", expanding=True))
        may = may.where(or_(is_wished, Source.name.in_(bindparam("wished_names", expanding=True))))
    return may.cte("open_sources")


def _the_one(column: ColumnElement[UUID]) -> ScalarSelect[UUID]:
    """The value in the only row, or in the first where more than one will be refused."""
    return select(column).limit(1).scalar_subquery()


def _is_called(
    id_column: InstrumentedAttribute[UUID], name_column: InstrumentedAttribute[str], bind: str, by: By
) -> ColumnElement[bool]:
    column = id_column if by == "id" else name_column
    return column == bindparam(bind, type_=column.type)


def _nulls(columns: Any) -> list[ColumnElement[Any]]:  # Any: of columns of all types
    # Each says its type: PostgreSQL would guess it from the first two of three statements.
    return [cast(null(), column.type) for column in columns]


class in_subquery(FunctionElement[bool]):  # noqa: N801  # reads as a function in a statement
    """The condition that a column is in a list that a subquery makes, which is made once and then looked up.

    As a join it would mean the same, but how many it lists is known to us only: a handful. PostgreSQL would rather
    scan a table than look up as many as it fears, and SQLite would index a table anew for every question.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: Any, listed: Any) -> None:  # Any: a column of any type, a statement of that column
        super().__init__(column, listed.scalar_subquery())

    def self_group(self, against: OperatorType | None = None) -> "in_subquery":  # noqa: ARG002  # SQLAlchemy's signature
        return self  # a condition already: the `= 1` that functions get on SQLite would hide it from the indexes


@compiles(in_subquery, "postgresql")
def _among_on_postgresql(element: in_subquery, compiler: SQLCompiler, **kw: Any) -> str:  # Any: SQLAlchemy's own
    column, listed = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{column} = ANY (ARRAY{listed})"


@compiles(in_subquery, "sqlite")
def _among_on_sqlite(element: in_subquery, compiler: SQLCompiler, **kw: Any) -> str:
    column, listed = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{column} IN {listed}"
