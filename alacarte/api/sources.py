"""Sources, their shards, samples and prompts, and uploads."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field, JsonValue

from alacarte.api.base import DIGEST_EXAMPLE, TIME_EXAMPLE, UUID_EXAMPLE, RequestModel, ResponseModel, example
from alacarte.api.limits import MAX_SHARDS
from alacarte.api.literals import Right, ShardState, UnreadablePolicy

MAX_LISTED_SKIPPED = 100
_EXAMPLE: dict[str, JsonValue] = {
    "id": UUID_EXAMPLE,
    "task_id": UUID_EXAMPLE,
    "name": "clinic-a",
    "owner_id": UUID_EXAMPLE,
    "created_at": TIME_EXAMPLE,
}


class SourceCreate(RequestModel):
    """A source without pictures, for prompts that are trained elsewhere."""

    model_config = example(task="flowers", name="clinic-a")

    task: str = Field(description="The task, by name or id.")
    name: str = Field(description="A name that no source of the task has yet.")
    owner: UUID | None = Field(default=None, description="The owner, if an admin uploads for somebody else.")


class UploadOptions(RequestModel):
    """How an archive of pictures is read."""

    shards: int = Field(default=1, ge=1, le=MAX_SHARDS, description="Number of shards that are trained separately.")
    within: str | None = Field(default=None, max_length=500, description="Read only this folder of the archive.")
    unreadable: UnreadablePolicy = Field(
        default="refuse", description="Refuse the upload because of an unacceptable picture, or skip the picture."
    )


class SourceUploadRequest(UploadOptions):
    """The fields of an upload that makes a source, without the archive."""

    task: str
    name: str
    owner: UUID | None = None


class SamplesUploadRequest(UploadOptions):
    """The fields of an upload to an existing source, without the archive."""

    readmit: bool = False


class SkippedFileResponse(ResponseModel):
    """A file that was left out."""

    name: str
    reason: str


def _take_first(files: list[SkippedFileResponse]) -> list[SkippedFileResponse]:
    return files[:MAX_LISTED_SKIPPED]


class UploadResponse(ResponseModel):
    """What an upload added; it is trained from now on."""

    model_config = example(
        source_id=UUID_EXAMPLE,
        shards=[UUID_EXAMPLE],
        samples=120,
        size_bytes=4_000_000,
        skipped=1,
        skipped_files=[{"name": "roses/17.png", "reason": "is in the source already"}],
    )

    source_id: UUID
    shards: list[UUID] = Field(description="The new shards, in the order of their numbers.")
    samples: int
    size_bytes: int
    skipped: int = Field(description="How many files were left out.")
    skipped_files: Annotated[list[SkippedFileResponse], AfterValidator(_take_first)] = Field(
        description=f"The first {MAX_LISTED_SKIPPED} of them, and why."
    )


class SourceResponse(ResponseModel):
    """A source, as lists show it."""

    model_config = example(**_EXAMPLE, samples=120, shards=2, trained=1)

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    samples: int
    shards: int
    trained: int = Field(description="How many of the shards have their prompt.")


class ShardResponse(ResponseModel):
    """One shard and the state of its training."""

    id: UUID
    number: int
    generation: int
    samples: int
    size_bytes: int
    state: ShardState
    progress: float = Field(description="From 0 to 1.")
    attempts: int
    worker: str | None
    error: str | None
    not_before: datetime | None

    @property
    def is_served(self) -> bool:
        """Whether its prompt is served."""
        return self.state in ("trained", "remote")


class SourceDetailResponse(ResponseModel):
    """A source with its shards in their order."""

    model_config = example(
        **_EXAMPLE,
        rights=["manage", "use"],
        labels=["rose", "tulip"],
        samples=120,
        size_bytes=4_000_000,
        progress=0.5,
        shards=[],
    )

    id: UUID
    task_id: UUID
    name: str
    owner_id: UUID | None
    created_at: datetime
    rights: Annotated[list[Right], AfterValidator(sorted)] = Field(description="Your rights.")
    labels: list[str]
    samples: int
    size_bytes: int
    progress: float = Field(description="How much of the source is trained, from 0 to 1.")
    shards: list[ShardResponse]

    @property
    def is_trained(self) -> bool:
        """Whether the prompts of all shards are served."""
        return all(shard.is_served for shard in self.shards)


class SampleResponse(ResponseModel):
    """One labelled picture, identified by the digest of its bytes."""

    model_config = example(
        digest=DIGEST_EXAMPLE,
        shard_id=UUID_EXAMPLE,
        label="rose",
        name="roses/17.png",
        size_bytes=40_000,
        added_at=TIME_EXAMPLE,
    )

    digest: str
    shard_id: UUID
    label: str
    name: str
    size_bytes: int
    added_at: datetime


class PromptResponse(ResponseModel):
    """A prompt that is served from now on."""

    model_config = example(
        id=UUID_EXAMPLE,
        source_id=UUID_EXAMPLE,
        shard_id=UUID_EXAMPLE,
        generation=1,
        digest=DIGEST_EXAMPLE,
        size_bytes=250_000,
        labels=["rose", "tulip"],
        samples=120,
        published_at=TIME_EXAMPLE,
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


class TrainingControlResponse(ResponseModel):
    """How many shards were stopped or resumed."""

    model_config = example(shards=2)

    shards: int
