"""`PUT /sources/{id}/prompt`: a prompt that was trained elsewhere, without its pictures."""

from uuid import UUID

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session

from alacarte.api.sources import PromptResponse
from alacarte.prompting.predict import check_backbone
from alacarte.prompting.prompt.artifact import prompt_from_bytes, prompt_to_bytes
from registry.access.caller import Caller
from registry.access.source_rights import require_right
from registry.access.usable_prompts import TaskConfig
from registry.catalog.tasks import find_task
from registry.registry import Registry
from registry.training.publish import PublishedMetadata, publish_remote
from service.http.media_types import OCTET_STREAM
from service.http.openapi import problems
from service.http.request_context import Context

router = APIRouter(tags=["sources"])
CONTENT_TYPES = (OCTET_STREAM, "application/x-safetensors")


@router.put(
    "/sources/{source_id}/prompt",
    summary="Push a prompt that was trained elsewhere",
    responses=problems(403, 404, 409),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in CONTENT_TYPES},
        }
    },
)
async def push_prompt(request: Request, context: Context, source_id: UUID) -> PromptResponse:
    """Publish the bytes of a `.prompt` file (safetensors) as a new shard of the source; it is served from now on.

    Its backbone must be the task's, its shapes must fit, and all its numbers must be finite.
    """
    task = await context.read(lambda session, caller: _managed_task(session, caller, source_id))
    data = await request.body()
    state = context.state
    prompt = await state.thread_pool.run(lambda: prompt_from_bytes(data, state.settings.max_prompt_bytes))
    check_backbone(await state.backbones.get(task), "sent", prompt)

    def publish(registry: Registry, caller: Caller) -> PromptResponse:
        # Serialised again, so that the stored artifact contains the prompt and nothing else.
        return PromptResponse.model_validate(
            publish_remote(
                registry, caller, source_id, prompt_to_bytes(prompt), PublishedMetadata.from_artifact(prompt.metadata)
            )
        )

    return await context.run(publish)


def _managed_task(session: Session, caller: Caller, source_id: UUID) -> TaskConfig:
    """Return the task of the source; raise if the caller may not manage the source."""
    source = require_right(session, caller, "manage", source_id)
    return TaskConfig.from_task(find_task(session, source.task_id))
