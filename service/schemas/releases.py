"""Releases as documents."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from service.schemas.base import DIGEST_EXAMPLE, MOMENT_EXAMPLE, UUID_EXAMPLE, Asked, Told

_FACTS: JsonDict = {
    "id": UUID_EXAMPLE,
    "task_id": UUID_EXAMPLE,
    "name": "spring",
    "created_by": UUID_EXAMPLE,
    "created_at": MOMENT_EXAMPLE,
}


class ReleaseToPin(Asked):
    """A name for the prompts that a task has now."""

    model_config = ConfigDict(json_schema_extra={"example": {"task": "flowers", "name": "spring"}})

    task: str = Field(description="The task, by name or id.")
    name: str = Field(description="A name that no release of the task has yet.")


class ReleaseTold(Told):
    """A named, pinned set of prompts."""

    model_config = ConfigDict(json_schema_extra={"example": _FACTS})

    id: UUID
    task_id: UUID
    name: str
    created_by: UUID | None
    created_at: datetime


class MemberTold(Told):
    """A prompt that the release pins."""

    prompt_id: UUID
    source_id: UUID
    shard_id: UUID
    digest: str


class LossTold(Told):
    """A prompt that the release had pinned, and the erasure that took it."""

    prompt_id: UUID
    source_id: UUID
    shard_id: UUID
    erasure_id: UUID
    lost_at: datetime


class ContentsTold(ReleaseTold):
    """A release with what it has and what it has lost, as far as you may see it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **_FACTS,
                "members": [
                    {
                        "prompt_id": UUID_EXAMPLE,
                        "source_id": UUID_EXAMPLE,
                        "shard_id": UUID_EXAMPLE,
                        "digest": DIGEST_EXAMPLE,
                    }
                ],
                "losses": [],
            }
        }
    )

    members: list[MemberTold]
    losses: list[LossTold]
