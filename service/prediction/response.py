"""The response of `/predict`: the best labels of each picture and, if requested, the weight of each source."""

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
from registry.access.usable_prompts import UsablePrompt, UsablePromptSet


@dataclass(frozen=True)
class PredictionResult:
    """The answers in the order of the pictures, and the set of prompts that they were computed with."""

    answers: tuple[ImagePrediction, ...]
    used: UsablePromptSet
    composition: Composition
    weighting: Weighting


def serialize_prediction(result: PredictionResult, options: PredictOptions) -> bytes:
    """Return the response body of `/predict`."""
    prompts = {str(prompt.id): prompt for prompt in result.used.prompts}
    response = PredictResponse(
        task=result.used.task.id,
        sources=sorted({prompt.source_id for prompt in result.used.prompts}),
        set_digest=result.answers[0].set_digest,
        composition=result.composition,
        weighting=result.weighting,
        results=[
            ImageResult(
                labels=top_labels(answer, options.top_k),
                explain=_explain(answer, prompts, options.top_k) if options.explain else None,
            )
            for answer in result.answers
        ],
    )
    return response.model_dump_json(exclude_none=True).encode()


def top_labels(answer: ImagePrediction, top_k: int) -> list[LabelScore]:
    """Return the best labels of an answer with their scores."""
    scores = answer.scores[:top_k].tolist()
    return [LabelScore(label=label, score=score) for label, score in zip(answer.labels, scores, strict=False)]


def _explain(answer: ImagePrediction, prompts: Mapping[str, UsablePrompt], top_k: int) -> list[SourceExplanation]:
    by_source: dict[UUID, list[MemberScores]] = defaultdict(list)
    for member in answer.members:
        by_source[prompts[member.name].source_id].append(member)
    return [
        SourceExplanation(
            source=source,
            weight=sum(member.weight for member in members),
            labels=_rank(_mean_scores(members).items(), top_k),
            prompts=[_explain_prompt(member, prompts[member.name], top_k) for member in members],
        )
        for source, members in sorted(by_source.items())
    ]


def _explain_prompt(member: MemberScores, prompt: UsablePrompt, top_k: int) -> PromptExplanation:
    scores = zip(member.labels, member.scores.tolist(), strict=True)
    return PromptExplanation(prompt=prompt.id, shard=prompt.shard_id, weight=member.weight, labels=_rank(scores, top_k))


def _mean_scores(members: Sequence[MemberScores]) -> dict[str, float]:
    """Average the scores of the members; a member gives zero to a label that it does not have."""
    total: dict[str, float] = defaultdict(float)
    for member in members:
        for label, score in zip(member.labels, member.scores.tolist(), strict=True):
            total[label] += score / len(members)
    return total


def _rank(scores: Iterable[tuple[str, float]], top_k: int) -> list[LabelScore]:
    ranked = sorted(scores, key=lambda item: (-item[1], item[0]))
    return [LabelScore(label=label, score=score) for label, score in ranked[:top_k]]
