"""Sources, their shards, samples and uploads as documents."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from registry.catalog.source_status import ShardCondition
from registry.db.models.users import Right
from registry.ingest.pipeline import MAX_SHARDS
from service.schemas.base import DIGEST_EXAMPLE, MOMENT_EXAMPLE, UUID_EXAMPLE, Asked, Told

MAX_TOLD_REFUSALS = 100
_FACTS = {
    "id": UUID_EXAMPLE,
    "task_id": UUID_EXAMPLE,
    "name": "clinic-a",
    "owner_id": UUID_EXAMPLE,
    "created_at": MOMENT_EXAMPLE,
}


class SourceToMake(Asked):
    """A source without pictures, as for prompts that are trained elsewhere."""

    model_config = ConfigDict(json_schema_extra={"example": {"task": "flowers", "name": "clinic-a"}})

    task: str = Field(description="The task, by name or id.")
    name: str = Field(description="A name that no source of the task has yet.")
    owner: UUID | None = Field(default=None, description="Whose it is, said by an admin; yours if none is given.")


class HowToRead(Asked):
    """How an archive of pictures is to be read."""

    shards: int = Field(default=1, ge=1, le=MAX_SHARDS, description="Parts that the pictures are trained in.")
    within: str | None = Field(default=None, max_length=500, description="Read only this folder of the archive.")
    unreadable: Literal["refuse", "skip"] = Field(
        default="refuse", description="Whether a picture that cannot be taken refuses the whole, or is left out."
    )


class UploadOfSource(HowToRead):
    """What is said of a new source beside its archive."""

    task: str
    name: str
    owner: UUID | None = None


class UploadOfSamples(HowToRead):
    """What is said of pictures that are added."""

    readmit: bool = False


class RefusalTold(Told):
    """A file that was left out."""

    name: str
    reason: str


class AdmissionTold(Told):
    """What was taken in; its training is work from now on."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "source": UUID_EXAMPLE,
                "shards": [UUID_EXAMPLE],
                "samples": 120,
                "size_bytes": 4_000_000,
                "refused": 1,
                "refusals": [{"name": "roses/17.png", "reason": "is in the source already"}],
            }
        }
    )

    source: UUID
    shards: list[UUID] = Field(description="The new ones, in the order of their numbers.")
    samples: int
    size_bytes: int
    refused: int = Field(description="How many files were left out.")
    refusals: list[RefusalTold] = Field(description=f"The first {MAX_TOLD_REFUSALS} of them, and why.")


class SourceTold(Told):
    """A source as lists show it."""

    model_config = ConfigDict(json_schema_extra={"example": {**_FACTS, "samples": 120, "shards": 2, "trained": 1}})

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    samples: int
    shards: int
    trained: int = Field(description="Of the shards, those that have their prompt.")


class ShardTold(Told):
    """One shard: what it holds, and how far its training has come."""

    id: UUID
    number: int
    generation: int
    samples: int
    size_bytes: int
    state: ShardCondition
    progress: float
    attempts: int
    worker: str | None
    error: str | None
    not_before: datetime | None


class SourceStateTold(Told):
    """A source as a whole, its shards in their order."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                **_FACTS,
                "rights": ["manage", "use"],
                "labels": ["rose", "tulip"],
                "samples": 120,
                "size_bytes": 4_000_000,
                "progress": 0.5,
                "shards": [],
            }
        }
    )

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    rights: list[Right] = Field(description="Yours.")
    labels: list[str]
    samples: int
    size_bytes: int
    progress: float = Field(description="How much of it has been learnt, from 0 to 1.")
    shards: list[ShardTold]


class SampleTold(Told):
    """One labelled picture, named by the digest of its bytes."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "digest": DIGEST_EXAMPLE,
                "shard_id": UUID_EXAMPLE,
                "label": "rose",
                "name": "roses/17.png",
                "size_bytes": 40_000,
                "added_at": MOMENT_EXAMPLE,
            }
        }
    )

    digest: str
    shard_id: UUID
    label: str
    name: str
    size_bytes: int
    added_at: datetime


class PromptTold(Told):
    """A prompt that is served from now on."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": UUID_EXAMPLE,
                "source_id": UUID_EXAMPLE,
                "shard_id": UUID_EXAMPLE,
                "generation": 1,
                "digest": DIGEST_EXAMPLE,
                "size_bytes": 250_000,
                "labels": ["rose", "tulip"],
                "samples": 120,
                "published_at": MOMENT_EXAMPLE,
            }
        }
    )

    id: UUID
    source_id: UUID
    shard_id: UUID
    generation: int
    digest: str
    size_bytes: int
    labels: list[str]
    samples: int
    published_at: datetime


class TrainingTold(Told):
    """How many shards were stopped, or let go on."""

    model_config = ConfigDict(json_schema_extra={"example": {"shards": 2}})

    shards: int
