"""Releases: named, pinned sets of prompts."""

from datetime import datetime
from uuid import UUID

from pydantic import Field, JsonValue

from alacarte.api.base import DIGEST_EXAMPLE, TIME_EXAMPLE, UUID_EXAMPLE, RequestModel, ResponseModel, example

_EXAMPLE: dict[str, JsonValue] = {
    "id": UUID_EXAMPLE,
    "task_id": UUID_EXAMPLE,
    "name": "spring",
    "created_by": UUID_EXAMPLE,
    "created_at": TIME_EXAMPLE,
}


class ReleaseCreate(RequestModel):
    """A name for the prompts that a task has now."""

    model_config = example(task="flowers", name="spring")

    task: str = Field(description="The task, by name or id.")
    name: str = Field(description="A name that no release of the task has yet.")


class ReleaseResponse(ResponseModel):
    """A named, pinned set of prompts."""

    model_config = example(**_EXAMPLE)

    id: UUID
    task_id: UUID
    name: str
    created_by: UUID | None
    created_at: datetime


class ReleaseMemberResponse(ResponseModel):
    """A prompt that the release pins."""

    prompt_id: UUID
    source_id: UUID
    shard_id: UUID
    digest: str


class ReleaseLossResponse(ResponseModel):
    """A prompt that the release had pinned, and the erasure that removed it."""

    prompt_id: UUID
    source_id: UUID
    shard_id: UUID
    erasure_id: UUID
    lost_at: datetime


class ReleaseDetailResponse(ReleaseResponse):
    """A release with the prompts it pins and those it lost, of the sources that you may see."""

    model_config = example(
        **_EXAMPLE,
        members=[
            {"prompt_id": UUID_EXAMPLE, "source_id": UUID_EXAMPLE, "shard_id": UUID_EXAMPLE, "digest": DIGEST_EXAMPLE}
        ],
        losses=[],
    )

    members: list[ReleaseMemberResponse]
    losses: list[ReleaseLossResponse]
