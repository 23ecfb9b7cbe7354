"""Tasks as documents."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from registry.catalog.tasks import MAX_LABELS, MAX_RECIPE_BYTES
from registry.db.models.catalog import Composition, Weighting
from service.schemas.base import MOMENT_EXAMPLE, UUID_EXAMPLE, Asked, Told, require_few

MAX_WORDS = MAX_RECIPE_BYTES // len('"a":1,')
Setting = StrictBool | StrictInt | StrictFloat | StrictStr


def _few_words(recipe: Any) -> Any:  # Any: whatever JSON has
    return require_few(recipe, MAX_WORDS)


class TaskToMake(Asked):
    """A new task."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "flowers",
                "backbone": "vit_tiny_patch16_224.augreg_in21k_ft_in1k",
                "composition": "average",
                "recipe": {"epochs": 20},
            }
        }
    )

    name: str = Field(description="A name that no task has yet.")
    backbone: str = Field(description="As timm names it.")
    size: int | None = Field(default=None, description="Pixels of a side; the backbone's own if none is given.")
    labels: Annotated[list[str], Field(fail_fast=True, max_length=MAX_LABELS)] | None = Field(
        default=None, description="The labels that sources may have; whatever they bring if none are given."
    )
    composition: Composition = Field(default="average", description="How prompts are composed, unless asked otherwise.")
    weighting: Weighting = Field(default="none", description="How prompts are weighted, unless asked otherwise.")
    recipe: Annotated[dict[str, Setting], BeforeValidator(_few_words)] = Field(
        default_factory=dict, description="What training is told beyond its defaults."
    )


class TaskTold(Told):
    """A label space on one backbone, whose sources can be composed."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": UUID_EXAMPLE,
                "name": "flowers",
                "backbone": "vit_tiny_patch16_224.augreg_in21k_ft_in1k",
                "size": None,
                "identity": None,
                "labels": None,
                "composition": "average",
                "weighting": "none",
                "recipe": {"epochs": 20},
                "created_at": MOMENT_EXAMPLE,
            }
        }
    )

    id: UUID
    name: str
    backbone: str
    size: int | None
    identity: str | None = Field(description="The digest of the backbone; the first prompt settles it.")
    labels: list[str] | None
    composition: Composition
    weighting: Weighting
    recipe: dict[str, Setting]
    created_at: datetime
