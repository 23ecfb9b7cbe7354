"""`/releases`: the prompts of a task at one moment, pinned under a name."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.releases import (
    ReleaseCreate,
    ReleaseDetailResponse,
    ReleaseLossResponse,
    ReleaseMemberResponse,
    ReleaseResponse,
)
from registry.access.caller import Caller
from registry.catalog.releases import list_releases, pin_release, read_release, remove_release
from registry.catalog.tasks import find_task
from registry.db.paging import DEFAULT_LIMIT
from service.http.openapi import located, problems
from service.http.request_context import Context
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["releases"])
OfTask = Annotated[str | None, Query(description="Only those of this task, by name or id.")]


@router.get("/releases", summary="List releases", responses=problems(404))
async def index(
    context: Context, task: OfTask = None, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT
) -> PageResponse[ReleaseResponse]:
    """All releases, or those of a task, the oldest first."""

    def work(session: Session, caller: Caller) -> PageResponse[ReleaseResponse]:  # noqa: ARG001  # everybody sees them all
        task_id = None if task is None else find_task(session, task).id
        return to_page_response(list_releases(session, task_id, after, limit), ReleaseResponse.model_validate)

    return await context.read(work)


@router.post("/releases", status_code=201, summary="Pin a release", responses=located(201) | problems(403, 404, 409))
async def pin(context: Context, release: ReleaseCreate, response: Response) -> ReleaseResponse:
    """Pins all prompts that the task has now, for admins."""

    def work(session: Session, caller: Caller) -> ReleaseResponse:
        task_id = find_task(session, release.task).id
        return ReleaseResponse.model_validate(pin_release(session, caller, task_id, release.name))

    made = await context.write(work)
    response.headers["Location"] = f"/releases/{made.id}"
    return made


@router.get("/releases/{release_id}", summary="Show a release", responses=problems(404))
async def show(context: Context, release_id: UUID) -> ReleaseDetailResponse:
    """What the release pins and what it lost to erasures, as far as you may see the sources."""

    def work(session: Session, caller: Caller) -> ReleaseDetailResponse:
        contents = read_release(session, caller, release_id)
        return ReleaseDetailResponse(
            **ReleaseResponse.model_validate(contents.release).model_dump(),
            members=[ReleaseMemberResponse.model_validate(member) for member in contents.members],
            losses=[ReleaseLossResponse.model_validate(loss) for loss in contents.losses],
        )

    return await context.read(work)


@router.delete("/releases/{release_id}", status_code=204, summary="Remove a release", responses=problems(403, 404))
async def remove(context: Context, release_id: UUID) -> None:
    """Unpins everything, for admins; the prompts themselves stay."""
    await context.write(lambda session, caller: remove_release(session, caller, release_id))
