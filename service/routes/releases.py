"""`/releases`: the prompts of a task at one moment, pinned under a name."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.catalog.releases import list_releases, pin_release, remove_release, show_release
from registry.catalog.tasks import find_task
from service.http.request_context import Context
from service.schemas.base import DEFAULT_PAGE, After, Limit, PageOf, page_of
from service.schemas.problem import located, problems
from service.schemas.releases import ContentsTold, LossTold, MemberTold, ReleaseTold, ReleaseToPin

router = APIRouter(tags=["releases"])
OfTask = Annotated[str | None, Query(description="Only those of this task, by name or id.")]


@router.get("/releases", summary="List releases", responses=problems(404))
async def index(
    context: Context, task: OfTask = None, after: After = None, limit: Limit = DEFAULT_PAGE
) -> PageOf[ReleaseTold]:
    """All releases, or those of a task, the oldest first."""

    def work(session: Session, caller: Caller) -> PageOf[ReleaseTold]:  # noqa: ARG001  # everybody sees them all
        task_id = None if task is None else find_task(session, task).id
        return page_of(list_releases(session, task_id, after, limit), ReleaseTold.model_validate)

    return await context.read(work)


@router.post("/releases", status_code=201, summary="Pin a release", responses=located(201) | problems(403, 404, 409))
async def pin(context: Context, release: ReleaseToPin, response: Response) -> ReleaseTold:
    """Pins all prompts that the task has now, for admins."""

    def work(session: Session, caller: Caller) -> ReleaseTold:
        task_id = find_task(session, release.task).id
        return ReleaseTold.model_validate(pin_release(session, caller, task_id, release.name))

    made = await context.write(work)
    response.headers["Location"] = f"/releases/{made.id}"
    return made


@router.get("/releases/{release_id}", summary="Show a release", responses=problems(404))
async def show(context: Context, release_id: UUID) -> ContentsTold:
    """What the release pins and what it lost to erasures, as far as you may see the sources."""

    def work(session: Session, caller: Caller) -> ContentsTold:
        contents = show_release(session, caller, release_id)
        return ContentsTold(
            **ReleaseTold.model_validate(contents.release).model_dump(),
            members=[MemberTold.model_validate(member) for member in contents.members],
            losses=[LossTold.model_validate(loss) for loss in contents.losses],
        )

    return await context.read(work)


@router.delete("/releases/{release_id}", status_code=204, summary="Remove a release", responses=problems(403, 404))
async def remove(context: Context, release_id: UUID) -> None:
    """Unpins everything, for admins; the prompts themselves stay."""
    await context.write(lambda session, caller: remove_release(session, caller, release_id))
