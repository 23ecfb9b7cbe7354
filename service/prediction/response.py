"""The response of `/predict`: the best labels of each picture and, if asked for, the share of each source."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from alacarte.api.literals import Composition, Weighting
from alacarte.api.predictions import (
    ImageResult,
    LabelScore,
    PredictOptions,
    PredictResponse,
    PromptExplanation,
    SourceExplanation,
)
from alacarte.prompting.predict import ImagePrediction, MemberScores
from registry.access.usable_set import UsablePrompt, UsablePromptSet


@dataclass(frozen=True)
class PredictionResult:
    """The answers in the order of the pictures, and the usable set that they were computed with."""

    answers: tuple[ImagePrediction, ...]
    used: UsablePromptSet
    composition: Composition
    weighting: Weighting


def serialize_prediction(result: PredictionResult, options: PredictOptions) -> bytes:
    """The response body of `/predict`."""
    return _prediction(result, options).model_dump_json(exclude_none=True).encode()


def _prediction(result: PredictionResult, options: PredictOptions) -> PredictResponse:
    prompts = {str(prompt.id): prompt for prompt in result.used.prompts}
    return PredictResponse(
        task=result.used.task.id,
        sources=sorted({prompt.source_id for prompt in result.used.prompts}),
        set_digest=result.answers[0].set_digest,
        composition=result.composition,
        weighting=result.weighting,
        results=[
            ImageResult(
                labels=top_labels(answer, options.top_k),
                explain=_explained(answer, prompts, options.top_k) if options.explain else None,
            )
            for answer in result.answers
        ],
    )


def top_labels(answer: ImagePrediction, top_k: int) -> list[LabelScore]:
    """The best labels of an answer, with their scores."""
    scores = answer.scores[:top_k].tolist()
    return [LabelScore(label=label, score=score) for label, score in zip(answer.labels, scores, strict=False)]


def _explained(answer: ImagePrediction, prompts: Mapping[str, UsablePrompt], top_k: int) -> list[SourceExplanation]:
    by_source: dict[UUID, list[MemberScores]] = defaultdict(list)
    for member in answer.members:
        by_source[prompts[member.name].source_id].append(member)
    return [
        SourceExplanation(
            source=source,
            weight=sum(member.weight for member in members),
            labels=_top(_mean(members).items(), top_k),
            prompts=[_prompt_says(member, prompts[member.name], top_k) for member in members],
        )
        for source, members in sorted(by_source.items())
    ]


def _prompt_says(member: MemberScores, prompt: UsablePrompt, top_k: int) -> PromptExplanation:
    own = zip(member.labels, member.scores.tolist(), strict=True)
    return PromptExplanation(prompt=prompt.id, shard=prompt.shard_id, weight=member.weight, labels=_top(own, top_k))


def _mean(members: Sequence[MemberScores]) -> dict[str, float]:
    """What the members say together: a label that one does not know gets nothing from it."""
    total: dict[str, float] = defaultdict(float)
    for member in members:
        for label, score in zip(member.labels, member.scores.tolist(), strict=True):
            total[label] += score / len(members)
    return total


def _top(scores: Iterable[tuple[str, float]], top_k: int) -> list[LabelScore]:
    ranked = sorted(scores, key=lambda scored: (-scored[1], scored[0]))
    return [LabelScore(label=label, score=score) for label, score in ranked[:top_k]]
