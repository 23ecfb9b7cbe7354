"""Tasks: label spaces on a backbone."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from alacarte.api.base import TIME_EXAMPLE, UUID_EXAMPLE, RequestModel, ResponseModel, example, require_few_members
from alacarte.api.limits import MAX_LABELS, MAX_RECIPE_BYTES
from alacarte.api.literals import Composition, Weighting

MAX_RECIPE_MEMBERS = MAX_RECIPE_BYTES // len('"a":1,')
RecipeValue = StrictBool | StrictInt | StrictFloat | StrictStr


def _limit_recipe(recipe: Any) -> Any:  # Any: the parsed JSON
    return require_few_members(recipe, MAX_RECIPE_MEMBERS)


class TaskCreate(RequestModel):
    """A new task."""

    model_config = example(
        name="flowers",
        backbone="vit_tiny_patch16_224.augreg_in21k_ft_in1k",
        composition="average",
        recipe={"epochs": 20},
    )

    name: str = Field(description="A name that no task has yet.")
    backbone: str = Field(description="The timm name of the backbone.")
    size: int | None = Field(default=None, description="Side of the input in pixels; default: the backbone's own.")
    labels: Annotated[list[str], Field(fail_fast=True, max_length=MAX_LABELS)] | None = Field(
        default=None, description="The labels that sources may have; default: any."
    )
    composition: Composition = Field(default="average", description="How prompts are composed by default.")
    weighting: Weighting = Field(default="none", description="How prompts are weighted by default.")
    recipe: Annotated[dict[str, RecipeValue], BeforeValidator(_limit_recipe)] = Field(
        default_factory=dict, description="Training options that differ from the defaults."
    )


class TaskResponse(ResponseModel):
    """A label space on one backbone; its sources can be composed."""

    model_config = example(
        id=UUID_EXAMPLE,
        name="flowers",
        backbone="vit_tiny_patch16_224.augreg_in21k_ft_in1k",
        size=None,
        identity=None,
        labels=None,
        composition="average",
        weighting="none",
        recipe={"epochs": 20},
        created_at=TIME_EXAMPLE,
    )

    id: UUID
    name: str
    backbone: str
    size: int | None
    identity: str | None = Field(description="The digest of the backbone; set by the first prompt.")
    labels: list[str] | None
    composition: Composition
    weighting: Weighting
    recipe: dict[str, RecipeValue]
    created_at: datetime
