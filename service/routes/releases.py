"""`/releases`: the prompts of a task at one moment, pinned under a name."""

from uuid import UUID

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.releases import ReleaseCreate, ReleaseDetailResponse, ReleaseResponse
from registry.access.caller import Caller
from registry.catalog import releases
from registry.catalog.tasks import find_task
from service.http.openapi import located, problems
from service.http.request_context import Context
from service.routes.parameters import Paging, TaskFilter

router = APIRouter(tags=["releases"])
ReleasePage = PageResponse[ReleaseResponse]


@router.get("/releases", summary="List releases", responses=problems(404))
async def list_releases(context: Context, page: Paging, task: TaskFilter = None) -> ReleasePage:
    """List all releases, or those of a task, oldest first."""

    def work(session: Session, caller: Caller) -> ReleasePage:  # noqa: ARG001  # everybody may see all releases
        task_id = None if task is None else find_task(session, task).id
        return ReleasePage.model_validate(releases.list_releases(session, task_id, page.after, page.limit))

    return await context.read(work)


@router.post("/releases", status_code=201, summary="Pin a release", responses=located(201) | problems(403, 404, 409))
async def pin_release(context: Context, body: ReleaseCreate, response: Response) -> ReleaseResponse:
    """Pin all prompts that the task has now. Admins only."""

    def work(session: Session, caller: Caller) -> ReleaseResponse:
        task_id = find_task(session, body.task).id
        return ReleaseResponse.model_validate(releases.pin_release(session, caller, task_id, body.name))

    pinned = await context.write(work)
    response.headers["Location"] = f"/releases/{pinned.id}"
    return pinned


@router.get("/releases/{release_id}", summary="Get a release", responses=problems(404))
async def get_release(context: Context, release_id: UUID) -> ReleaseDetailResponse:
    """Return the prompts that the release pins and those that it lost to erasures, of the sources that you may see."""

    def work(session: Session, caller: Caller) -> ReleaseDetailResponse:
        contents = releases.read_release(session, caller, release_id)
        release = ReleaseResponse.model_validate(contents.release).model_dump()
        return ReleaseDetailResponse.model_validate({**release, "members": contents.members, "losses": contents.losses})

    return await context.read(work)


@router.delete("/releases/{release_id}", status_code=204, summary="Delete a release", responses=problems(403, 404))
async def delete_release(context: Context, release_id: UUID) -> None:
    """Delete a release; its prompts stay. Admins only."""
    await context.write(lambda session, caller: releases.remove_release(session, caller, release_id))
