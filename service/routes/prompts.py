"""`PUT /sources/{id}/prompt`: a prompt that was trained elsewhere, without its pictures."""

from uuid import UUID

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session

from alacarte.api.sources import PromptResponse
from alacarte.prompting.predict import check_backbone
from alacarte.prompting.prompt.artifact import prompt_from_bytes, prompt_to_bytes
from registry.access.caller import Caller
from registry.access.rights import require_right
from registry.access.usable_set import TaskConfig
from registry.catalog.tasks import find_task
from registry.registry import Registry
from registry.training.publish import PublishedMetadata, publish_remote
from service.http.openapi import problems
from service.http.request_context import Context

router = APIRouter(tags=["sources"])
TYPES = ("application/octet-stream", "application/x-safetensors")


@router.put(
    "/sources/{source_id}/prompt",
    summary="Send a prompt that was trained elsewhere",
    responses=problems(403, 404, 409),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in TYPES},
        }
    },
)
async def publish(request: Request, context: Context, source_id: UUID) -> PromptResponse:
    """Takes the bytes of a `.prompt` file (safetensors) as a new shard of the source, served from now on.

    It counts once its backbone is the task's, its shapes fit, and all its numbers are finite.
    """
    task = await context.read(lambda session, caller: _task_to_manage(session, caller, source_id))
    data = await request.body()
    service = context.state
    prompt = await service.thread_pool.run(lambda: prompt_from_bytes(data, service.settings.max_prompt_bytes))
    backbone = await service.backbones.get(task)
    check_backbone(backbone, "sent", prompt)

    def keep(registry: Registry, caller: Caller) -> PromptResponse:
        # In the one way to write it: what is kept has nothing in it but the prompt.
        return PromptResponse.model_validate(
            publish_remote(registry, caller, source_id, prompt_to_bytes(prompt), PublishedMetadata.of(prompt.metadata))
        )

    return await context.run(keep)


def _task_to_manage(session: Session, caller: Caller, source_id: UUID) -> TaskConfig:
    task = find_task(session, require_right(session, caller, "manage", source_id).task_id)
    return TaskConfig(
        id=task.id,
        name=task.name,
        backbone=task.backbone,
        size=task.size,
        identity=task.identity,
        composition=task.composition,  # type: ignore[arg-type]  # the table holds no other
        weighting=task.weighting,  # type: ignore[arg-type]
        labels=None if task.labels is None else tuple(task.labels),
    )
