"""`/tasks`: label spaces on a backbone."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from alacarte.api.base import PageResponse
from alacarte.api.tasks import TaskCreate, TaskResponse
from registry.catalog.tasks import create_task, find_task, list_tasks, remove_task
from registry.db.paging import DEFAULT_LIMIT
from service.http.openapi import located, problems
from service.http.request_context import Context
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["tasks"])


@router.get("/tasks", summary="List tasks")
async def index(
    context: Context, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT
) -> PageResponse[TaskResponse]:
    """All tasks, the oldest first."""
    return await context.read(
        lambda session, _: to_page_response(list_tasks(session, after, limit), TaskResponse.model_validate)
    )


@router.post("/tasks", status_code=201, summary="Make a task", responses=located(201) | problems(403, 409))
async def make(context: Context, task: TaskCreate, response: Response) -> TaskResponse:
    """Makes a task, for admins."""
    made = await context.write(
        lambda session, caller: TaskResponse.model_validate(
            create_task(
                session,
                caller,
                task.name,
                backbone=task.backbone,
                size=task.size,
                labels=task.labels,
                composition=task.composition,
                weighting=task.weighting,
                recipe=task.recipe,
            )
        )
    )
    response.headers["Location"] = f"/tasks/{made.id}"
    return made


@router.get("/tasks/{task}", summary="Show a task", responses=problems(404))
async def show(context: Context, task: Annotated[str, Path(description="Its name or id.")]) -> TaskResponse:
    """All facts of a task."""
    return await context.read(lambda session, _: TaskResponse.model_validate(find_task(session, task)))


@router.delete("/tasks/{task_id}", status_code=204, summary="Remove a task", responses=problems(403, 404, 409))
async def remove(context: Context, task_id: UUID) -> None:
    """Removes a task that has no sources and no releases, for admins."""
    await context.write(lambda session, caller: remove_task(session, caller, task_id))
