"""Questions and answers as documents."""

from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from registry.access.rights import MAX_WISHES
from registry.db.models.catalog import Composition, Weighting
from service.schemas.base import DIGEST_EXAMPLE, UUID_EXAMPLE, Asked, Told

DEFAULT_TOP_K = 5
MAX_TOP_K = 1000


class Wish(Asked):
    """What is asked for beside the pictures."""

    task: str | None = Field(default=None, description="By name or id; may be left out where there is only one.")
    sources: Annotated[list[str], Field(fail_fast=True, max_length=MAX_WISHES)] | None = Field(
        default=None,
        description="Use only these, by name or id. It narrows what you may use, and never widens it.",
    )
    release: str | None = Field(default=None, description="Use only what this release pins, by name or id.")
    composition: Composition | None = Field(default=None, description="Instead of the task's own.")
    weighting: Weighting | None = Field(default=None, description="Instead of the task's own.")
    top_k: int = Field(default=DEFAULT_TOP_K, ge=1, le=MAX_TOP_K, description="How many labels, the best first.")
    explain: bool = Field(default=False, description="Tell each source's weight and own answer.")


class Question(Wish):
    """Pictures in JSON, and what is asked of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "images": [
                    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
                ],
                "top_k": 3,
            }
        }
    )

    images: Annotated[list[str], Field(fail_fast=True)] = Field(
        min_length=1, description="Each a picture's file in base64."
    )


class Scored(Told):
    """A label, and how sure the set is of it; the scores of all labels sum to one."""

    label: str
    score: float


class PromptSays(Told):
    """What one prompt of a source said by itself."""

    prompt: UUID
    shard: UUID
    weight: float
    labels: list[Scored]


class SourceSays(Told):
    """How much a source counted, what it said by itself (the mean of its prompts), and each of its prompts."""

    source: UUID
    weight: float
    labels: list[Scored]
    prompts: list[PromptSays]


class Result(Told):
    """The answer to one picture."""

    labels: list[Scored]
    explain: list[SourceSays] | None = None


class Prediction(Told):
    """The answers, in the order of the pictures, and what they rest on."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "task": UUID_EXAMPLE,
                "sources": [UUID_EXAMPLE],
                "set_digest": DIGEST_EXAMPLE,
                "composition": "average",
                "weighting": "none",
                "results": [{"labels": [{"label": "rose", "score": 0.93}, {"label": "tulip", "score": 0.07}]}],
            }
        }
    )

    task: UUID
    sources: list[UUID] = Field(description="Those that the answers rest on.")
    set_digest: str = Field(description="The same digest means the same prompts.")
    composition: Composition
    weighting: Weighting
    results: list[Result]
