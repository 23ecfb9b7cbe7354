"""Who may do what with a source. Rights are read from SQL each time; nothing here remembers an answer."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, CompoundSelect, literal, or_, select, true, union_all
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_NAMED_SOURCES
from alacarte.api.literals import Right
from registry.access.caller import Caller
from registry.access.credentials import Credential, CredentialKind
from registry.access.usable_prompts import SOURCE_COLUMNS, By, HeadRow, recheck_statement, usable_prompts_statement
from registry.access.usable_set import TaskConfig, UsablePrompt, UsablePromptSet
from registry.catalog.names import parse_name_or_id
from registry.db.database import Database
from registry.db.locks import lock_source
from registry.db.models.catalog import Source
from registry.db.models.users import RIGHTS, Grant, Membership
from registry.errors import Forbidden, Invalid, NotFound, Unauthenticated

SOURCES = len(HeadRow._fields)  # where the columns of sources begin in a row
PROMPTS = SOURCES + len(SOURCE_COLUMNS)
ADMIN_RIGHTS: frozenset[Right] = frozenset({"manage", "forget"})  # to use a source, admins too need a grant

T = TypeVar("T")


def read_usable_prompts(
    database: Database,
    credential: Credential,
    *,
    task: str | UUID | None = None,
    release: str | UUID | None = None,
    sources: Collection[str | UUID] | None = None,
) -> UsablePromptSet:
    """What the one who proves it owns or was granted in a task, within a release if one is named, by one statement.

    The task may be left out where there is only one. Sources, by id or name, narrow the set and never widen it;
    one that is not usable is NotFound, whether it exists or not.
    """
    wishes = None if sources is None else _wishes(sources)
    shape, binds = _question(credential, task, release, wishes)
    rows = database.fetch_rows(usable_prompts_statement(*shape), binds)
    heads = [HeadRow._make(row[:SOURCES]) for row in rows if row[0] is not None]
    if not heads or not credential.matches(heads[0].kept):
        raise Unauthenticated
    facts = _only_task(heads, task)
    if release is not None and heads[0].release_id is None:
        raise NotFound("release", release)
    names = {row[SOURCES]: row[SOURCES + 1] for row in rows if row[SOURCES] is not None}
    _require_wishes(wishes or (), names)
    prompts = [UsablePrompt._make(row[PROMPTS:]) for row in rows if row[PROMPTS] is not None]
    prompts.sort(key=lambda prompt: prompt.id.int)  # ids themselves compare ten times as slowly
    return UsablePromptSet(Caller(heads[0].user_id, heads[0].role), facts, tuple(prompts), tuple(sorted(names)))


def recheck_usable_prompts(
    database: Database,
    credential: Credential,
    found: UsablePromptSet,
    *,
    release: str | UUID | None = None,
    sources: Collection[str | UUID] | None = None,
) -> bool:
    """Whether every prompt that `read_usable_prompts` has found for the same question is usable now; half of its work.

    Unauthenticated where the credential has expired or was withdrawn.
    """
    shape, binds = _question(credential, found.task.id, release, None if sources is None else _wishes(sources))
    rows = database.fetch_rows(recheck_statement(*shape), binds)
    kept = next((row.kept for row in rows if row.kept is not None), None)
    if kept is None or not credential.matches(kept):
        raise Unauthenticated
    now = {row.prompt_id for row in rows}
    return all(prompt.id in now for prompt in found.prompts)


def require_right(session: Session, caller: Caller, right: Right, source_id: UUID) -> Source:
    """The source, locked; NotFound if the caller may not see it, Forbidden if they see it and lack the right."""
    source = lock_source(session, source_id)
    if right not in require_any_right(session, caller, source):
        raise Forbidden(f"you may not {right} this source: ask its owner or an admin for the right")
    return source


def require_any_right(session: Session, caller: Caller, source: Source) -> frozenset[Right]:
    """All rights of the caller to a source; NotFound if there are none, since then it is not there for them."""
    rights = set(ADMIN_RIGHTS if caller.is_admin else ())
    if caller.user_id is not None:
        if source.owner_id == caller.user_id:
            rights.update(RIGHTS)
        granted = select(Grant.right).where(
            Grant.source_id == source.id, Grant.user_id.in_(principal_ids(caller.user_id))
        )
        rights.update(right for right in RIGHTS if right in session.scalars(granted).all())
    if not rights:
        raise NotFound("source", source.id)
    return frozenset(rights)


def is_visible_to(caller: Caller, rights: Collection[Right] = RIGHTS) -> ColumnElement[bool]:
    """The condition that the caller may see a source: as an admin, as its owner, or by one of these rights to it."""
    return Source.erasure_id.is_(None) & _is_open_to(caller, rights)


def principal_ids(user_id: UUID) -> CompoundSelect[UUID]:
    """In whose name a user has rights: their own, and that of each group that they are in."""
    groups = select(Membership.group_id).where(Membership.member_id == user_id)
    return union_all(select(literal(user_id)), groups)


def _is_open_to(caller: Caller, rights: Collection[Right]) -> ColumnElement[bool]:
    if caller.is_admin:
        return true()
    if caller.user_id is None:
        return Source.id.is_(None)  # nobody's caller sees nothing
    granted = select(Grant.source_id).where(
        Grant.user_id.in_(principal_ids(caller.user_id)), Grant.right.in_(tuple(rights))
    )
    return or_(Source.owner_id == caller.user_id, Source.id.in_(granted))


def _question(
    credential: Credential, task: str | UUID | None, release: str | UUID | None, wishes: Collection[str | UUID] | None
) -> tuple[tuple[CredentialKind, By | None, By | None, bool], dict[str, object]]:
    """The shape of a question, which statements are made for, and what they are bound to."""
    binds = dict(credential.parameters)
    task_by = _bind(binds, "task", task)
    release_by = _bind(binds, "release", release)
    if wishes is not None:
        binds["wished_ids"] = _padded([wish for wish in wishes if isinstance(wish, UUID)])
        binds["wished_names"] = _padded([wish for wish in wishes if isinstance(wish, str)])
    return (credential.kind, task_by, release_by, wishes is not None), binds


def _bind(binds: dict[str, object], kind: str, name_or_id: str | UUID | None) -> By | None:
    if name_or_id is None:
        return None
    binds[kind] = wanted = parse_name_or_id(kind, name_or_id)
    return "id" if isinstance(wanted, UUID) else "name"


def _wishes(sources: Collection[str | UUID]) -> frozenset[str | UUID]:
    if len(sources) > MAX_NAMED_SOURCES:
        raise Invalid(f"at most {MAX_NAMED_SOURCES} sources can be named at once, not {len(sources)}")
    return frozenset(parse_name_or_id("source", wish) for wish in sources)


def _padded(values: list[T]) -> list[T]:
    """The values, the last repeated up to a power of two, so that few different statements are ever prepared."""
    return values + values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values)) if values else values


def _only_task(heads: Sequence[HeadRow], task: str | UUID | None) -> TaskConfig:
    head = heads[0]
    if len(heads) > 1:
        raise Invalid("there are several tasks: name one")
    if head.task_id is None:
        raise Invalid("there is no task yet: an admin makes one") if task is None else NotFound("task", task)
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


def _require_wishes(wishes: Collection[str | UUID], names: Mapping[UUID, str]) -> None:
    known = {*names, *names.values()} if wishes else ()
    for wish in wishes:
        if wish not in known:
            raise NotFound("source", wish)
