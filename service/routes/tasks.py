"""`/tasks`: label spaces on a backbone."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from alacarte.api.base import PageResponse
from alacarte.api.tasks import TaskCreate, TaskResponse
from registry.catalog import tasks
from service.http.openapi import located, problems
from service.http.request_context import Context
from service.routes.parameters import Paging

router = APIRouter(tags=["tasks"])
TaskPage = PageResponse[TaskResponse]


@router.get("/tasks", summary="List tasks")
async def list_tasks(context: Context, page: Paging) -> TaskPage:
    """List all tasks, oldest first."""
    return await context.read(
        lambda session, _: TaskPage.model_validate(tasks.list_tasks(session, page.after, page.limit))
    )


@router.post("/tasks", status_code=201, summary="Create a task", responses=located(201) | problems(403, 409))
async def create_task(context: Context, body: TaskCreate, response: Response) -> TaskResponse:
    """Create a task. Admins only."""
    created = await context.write(
        lambda session, caller: TaskResponse.model_validate(
            tasks.create_task(
                session,
                caller,
                body.name,
                backbone=body.backbone,
                size=body.size,
                labels=body.labels,
                composition=body.composition,
                weighting=body.weighting,
                recipe=body.recipe,
            )
        )
    )
    response.headers["Location"] = f"/tasks/{created.id}"
    return created


@router.get("/tasks/{task}", summary="Get a task", responses=problems(404))
async def get_task(context: Context, task: Annotated[str, Path(description="Its name or id.")]) -> TaskResponse:
    """Return one task."""
    return await context.read(lambda session, _: TaskResponse.model_validate(tasks.find_task(session, task)))


@router.delete("/tasks/{task_id}", status_code=204, summary="Delete a task", responses=problems(403, 404, 409))
async def delete_task(context: Context, task_id: UUID) -> None:
    """Delete a task that has no sources and no releases. Admins only."""
    await context.write(lambda session, caller: tasks.remove_task(session, caller, task_id))
