"""Releases: pin the current prompts of a task under a name. Forgotten prompts are removed from releases too."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import exists, insert, literal, select
from sqlalchemy.orm import Session

from registry.access.caller import Caller, require_admin
from registry.access.source_rights import is_visible_to
from registry.catalog.names import parse_name_or_id, validate_name
from registry.catalog.tasks import find_task
from registry.db.clock import now
from registry.db.database import insert_unique
from registry.db.models.catalog import Source
from registry.db.models.prompts import Prompt, Release, ReleaseLoss, ReleasePrompt
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Conflict, NotFound
from registry.ids import new_id
from registry.log import chain


@dataclass(frozen=True)
class PinnedPrompt:
    """A prompt in a release."""

    prompt_id: UUID
    source_id: UUID
    shard_id: UUID
    digest: str


@dataclass(frozen=True)
class LostPrompt:
    """A prompt that an erasure removed from a release."""

    prompt_id: UUID
    source_id: UUID
    shard_id: UUID
    erasure_id: UUID
    lost_at: datetime


@dataclass(frozen=True)
class ReleaseContents:
    """A release with the prompts in it and those removed from it, as far as the caller may see them, sorted by id."""

    release: Release
    members: tuple[PinnedPrompt, ...]
    losses: tuple[LostPrompt, ...]


def pin_release(session: Session, caller: Caller, task_id: UUID, name: str) -> Release:
    """Pin all prompts that the task has now."""
    require_admin(caller)
    name = validate_name("release", name)
    task = find_task(session, task_id)
    # Locked, so that an erasure comes entirely before or after this.
    sources = select(Source.id).where(Source.task_id == task.id, Source.erasure_id.is_(None))
    session.execute(sources.order_by(Source.id).with_for_update(read=True)).all()
    is_current = Prompt.source_id.in_(sources)
    if not session.scalar(select(exists().where(is_current))):
        raise Conflict("the task has no prompt to pin: wait until one is trained")
    release = Release(id=new_id(), task_id=task.id, name=name, created_by=caller.user_id, created_at=now())
    insert_unique(session, release, f"the task has a release {name!r} already: choose another name")
    pinned = select(literal(release.id), Prompt.id).where(is_current)
    columns = [ReleasePrompt.release_id, ReleasePrompt.prompt_id]
    count = len(session.scalars(insert(ReleasePrompt).from_select(columns, pinned).returning(*columns)).all())
    chain.append_entry(session, caller.user_id, "release.pinned", release=release.id, task=task.id, prompts=count)
    return release


def find_release(session: Session, task_id: UUID, name_or_id: str | UUID) -> Release:
    """Find a release of a task by name or id; everybody with a token may."""
    value = parse_name_or_id("release", name_or_id)
    is_match = Release.id == value if isinstance(value, UUID) else Release.name == value
    release = session.scalars(select(Release).where(is_match, Release.task_id == task_id)).one_or_none()
    if release is None:
        raise NotFound("release", name_or_id)
    return release


def read_release(session: Session, caller: Caller, release_id: UUID) -> ReleaseContents:
    """Return the contents of a release; callers other than admins see the prompts of sources visible to them."""
    release = session.get(Release, release_id)
    if release is None:
        raise NotFound("release", release_id)
    member = select(Prompt.id, Prompt.source_id, Prompt.shard_id, Prompt.digest).join(ReleasePrompt)
    member = member.where(
        ReleasePrompt.release_id == release_id, Prompt.source_id.in_(select(Source.id).where(is_visible_to(caller)))
    )
    loss = select(
        ReleaseLoss.prompt_id,
        ReleaseLoss.source_id,
        ReleaseLoss.shard_id,
        ReleaseLoss.erasure_id,
        ReleaseLoss.lost_at,
    ).where(ReleaseLoss.release_id == release_id)
    if not caller.is_admin:  # the rights to a forgotten source are gone, so only admins see its losses
        loss = loss.where(ReleaseLoss.source_id.in_(select(Source.id).where(is_visible_to(caller))))
    return ReleaseContents(
        release,
        tuple(PinnedPrompt(*row) for row in session.execute(member.order_by(Prompt.id))),
        tuple(LostPrompt(*row) for row in session.execute(loss.order_by(ReleaseLoss.prompt_id))),
    )


def list_releases(
    session: Session, task_id: UUID | None = None, after: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[Release]:
    """List all releases, or those of a task, oldest first."""
    statement = select(Release)
    if task_id is not None:
        statement = statement.where(Release.task_id == task_id)
    return read_page(session, statement, Release.id, after=after, limit=limit)


def remove_release(session: Session, caller: Caller, release_id: UUID) -> None:
    """Remove a release; its prompts stay."""
    require_admin(caller)
    release = session.get(Release, release_id, with_for_update=True, populate_existing=True)
    if release is None:
        raise NotFound("release", release_id)
    session.delete(release)
    chain.append_entry(session, caller.user_id, "release.removed", release=release_id, task=release.task_id)
