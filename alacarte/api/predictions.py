"""Prediction requests and responses."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from alacarte.api.base import DIGEST_EXAMPLE, PICTURE_EXAMPLE, UUID_EXAMPLE, RequestModel, ResponseModel, example
from alacarte.api.limits import MAX_NAMED_SOURCES
from alacarte.api.literals import Composition, Weighting

DEFAULT_TOP_K = 5
MAX_TOP_K = 1000


class PredictOptions(RequestModel):
    """The options of a prediction, without the pictures."""

    task: str | None = Field(default=None, description="By name or id; needed only if you may use several.")
    sources: Annotated[list[str], Field(fail_fast=True, max_length=MAX_NAMED_SOURCES)] | None = Field(
        default=None,
        description="Use only these sources, by name or id. This narrows what you may use, and never widens it.",
    )
    release: str | None = Field(default=None, description="Use only the prompts that this release pins, by name or id.")
    composition: Composition | None = Field(default=None, description="Overrides the task's composition.")
    weighting: Weighting | None = Field(default=None, description="Overrides the task's weighting.")
    top_k: int = Field(default=DEFAULT_TOP_K, ge=1, le=MAX_TOP_K, description="How many labels, best first.")
    explain: bool = Field(default=False, description="Add the weight and the own answer of each source.")


class PredictRequest(PredictOptions):
    """Pictures in base64, and the options of their prediction."""

    model_config = example(images=[PICTURE_EXAMPLE], top_k=3)

    images: Annotated[list[str], Field(fail_fast=True)] = Field(min_length=1, description="Picture files in base64.")


class LabelScore(ResponseModel):
    """A label and its score; the scores of all labels sum to one."""

    label: str
    score: float


class PromptExplanation(ResponseModel):
    """The weight and the own answer of one prompt."""

    prompt: UUID
    shard: UUID
    weight: float
    labels: list[LabelScore]


class SourceExplanation(ResponseModel):
    """The weight of a source, its own answer (the mean of its prompts), and each of its prompts."""

    source: UUID
    weight: float
    labels: list[LabelScore]
    prompts: list[PromptExplanation]


class ImageResult(ResponseModel):
    """The labels of one picture, best first."""

    labels: list[LabelScore]
    explain: list[SourceExplanation] | None = None

    @property
    def label(self) -> str:
        """The best label."""
        return self.labels[0].label

    @property
    def score(self) -> float:
        """The score of the best label."""
        return self.labels[0].score


class PredictionBasis(ResponseModel):
    """The set of prompts that answered, and how it was composed."""

    task: UUID
    sources: list[UUID] = Field(description="The sources whose prompts answered.")
    set_digest: str = Field(description="Equal digests mean equal sets of prompts.")
    composition: Composition
    weighting: Weighting


class PredictResponse(PredictionBasis):
    """One result for each picture, in the order of the pictures."""

    model_config = example(
        task=UUID_EXAMPLE,
        sources=[UUID_EXAMPLE],
        set_digest=DIGEST_EXAMPLE,
        composition="average",
        weighting="none",
        results=[{"labels": [{"label": "rose", "score": 0.93}, {"label": "tulip", "score": 0.07}]}],
    )

    results: list[ImageResult]

    def predictions(self) -> "list[Prediction]":
        """Return each result together with the basis of all."""
        basis = {name: getattr(self, name) for name in PredictionBasis.model_fields}
        return [Prediction(labels=result.labels, explain=result.explain, **basis) for result in self.results]


class Prediction(ImageResult, PredictionBasis):
    """The result of one picture together with its basis, as the client returns it."""
