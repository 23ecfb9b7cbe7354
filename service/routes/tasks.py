"""`/tasks`: label spaces on a backbone."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from registry.catalog.tasks import create_task, find_task, list_tasks, remove_task
from service.http.request_context import Context
from service.schemas.base import DEFAULT_PAGE, After, Limit, PageOf, page_of
from service.schemas.problem import located, problems
from service.schemas.tasks import TaskTold, TaskToMake

router = APIRouter(tags=["tasks"])


@router.get("/tasks", summary="List tasks")
async def index(context: Context, after: After = None, limit: Limit = DEFAULT_PAGE) -> PageOf[TaskTold]:
    """All tasks, the oldest first."""
    return await context.read(lambda session, _: page_of(list_tasks(session, after, limit), TaskTold.model_validate))


@router.post("/tasks", status_code=201, summary="Make a task", responses=located(201) | problems(403, 409))
async def make(context: Context, task: TaskToMake, response: Response) -> TaskTold:
    """Makes a task, for admins."""
    made = await context.write(
        lambda session, caller: TaskTold.model_validate(
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
async def show(context: Context, task: Annotated[str, Path(description="Its name or id.")]) -> TaskTold:
    """All facts of a task."""
    return await context.read(lambda session, _: TaskTold.model_validate(find_task(session, task)))


@router.delete("/tasks/{task_id}", status_code=204, summary="Remove a task", responses=problems(403, 404, 409))
async def remove(context: Context, task_id: UUID) -> None:
    """Removes a task that has no sources and no releases, for admins."""
    await context.write(lambda session, caller: remove_task(session, caller, task_id))
