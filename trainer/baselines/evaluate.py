"""Measuring: a classifier is asked about samples once, and an answer is compared with the truth."""

from collections.abc import Sequence

import torch

from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.compose import ComposedScores
from registry.datasets.dataset import LabelledPicture
from trainer.baselines.batches import load_batches
from trainer.baselines.errors import MeasurementInvalid
from trainer.baselines.member_logits import Classifier, EnsembleLogits, concat_batches
from trainer.views import served_batches

ASKED_AT_ONCE = 32


def classify(
    classifier: Classifier,
    samples: Sequence[LabelledPicture],
    preprocessing: Preprocessing,
    batch: int = ASKED_AT_ONCE,
) -> EnsembleLogits:
    """The classifier's opinions on all samples, as they are served, in the order given."""
    if not samples:
        raise MeasurementInvalid("there are no pictures to measure on: name a test set that has some")
    batches = served_batches(samples, batch)
    return concat_batches(
        [classifier.member_logits(pictures.images) for pictures in load_batches(batches, preprocessing)]
    )


def accuracy(answer: ComposedScores, truths: Sequence[str]) -> float:
    """The share of pictures whose best label is the true one; a label that nobody knows is never found."""
    if not truths or len(truths) != len(answer.scores):
        raise MeasurementInvalid(
            f"{len(truths)} true labels came with answers for {len(answer.scores)} pictures: give one for each"
        )
    if not torch.isfinite(answer.scores).all():
        raise MeasurementInvalid("a score is not a finite number: train again with a lower rate")
    best: list[int] = answer.scores.argmax(dim=1).tolist()
    found = sum(int(answer.labels[index] == truth) for index, truth in zip(best, truths, strict=True))
    return found / len(truths)
