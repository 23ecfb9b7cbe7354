"""Evaluate a classifier: its members' logits on samples, composed in any way afterwards, and the accuracy.

Members are kept apart so that one pass serves every composition, any subset of members and each member alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.compose import ComposedScores, compose
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.prompt.prototypes import prototype_weights
from registry.datasets.dataset import LabelledPicture
from trainer.errors import MeasurementInvalid
from trainer.views import load_batches, served_batches

# n pictures, k members, C_i labels of member i, K_i prototypes of member i, D width, S side

BATCH_PICTURES = 32


@dataclass(frozen=True)
class EnsembleLogits:
    """The logits of k members for the same n pictures, each over its own labels."""

    labels: tuple[tuple[str, ...], ...]  # of each member
    logits: tuple[Tensor, ...]  # of each member, (n, C_i), on the CPU
    embedding: Tensor | None = None  # (n, D), where the backbone's states do not depend on the members
    prototypes: tuple[Tensor, ...] | None = None  # of each member, (K_i, D), if there is an embedding

    def select_members(self, members: Iterable[int]) -> "EnsembleLogits":
        """Return the logits of these members only, as a smaller set would give them."""
        chosen = tuple(members)
        prototypes = self.prototypes
        return EnsembleLogits(
            labels=tuple(self.labels[member] for member in chosen),
            logits=tuple(self.logits[member] for member in chosen),
            embedding=self.embedding,
            prototypes=None if prototypes is None else tuple(prototypes[member] for member in chosen),
        )

    def select_pictures(self, pictures: Sequence[int]) -> "EnsembleLogits":
        """Return the logits for these pictures only, by their indices."""
        indices = torch.tensor(pictures)
        return EnsembleLogits(
            labels=self.labels,
            logits=tuple(logits[indices] for logits in self.logits),
            embedding=None if self.embedding is None else self.embedding[indices],
            prototypes=self.prototypes,
        )

    def compose(self, composition: Composition = "average", weighting: Weighting = "none") -> ComposedScores:
        """Compose the members into scores over the union of their labels."""
        weights = None
        if weighting == "prototypes":
            if self.embedding is None or self.prototypes is None:
                raise CompositionInvalid("these members have no prototypes: use the weighting 'none'")
            weights = prototype_weights(self.embedding, self.prototypes)
        return compose(self.logits, self.labels, composition, weights)


class Classifier(Protocol):
    """One or several members that classify images (n, 3, S, S)."""

    def member_logits(self, images: Tensor) -> EnsembleLogits:
        """Return each member's logits for each image; the order of the members is always the same."""
        ...


def concat_members(ensembles: Sequence[EnsembleLogits]) -> EnsembleLogits:
    """Return all members, for the same pictures, as one ensemble, which cannot be weighted."""
    return EnsembleLogits(
        labels=tuple(labels for each in ensembles for labels in each.labels),
        logits=tuple(logits for each in ensembles for logits in each.logits),
    )


def classify(
    classifier: Classifier,
    samples: Sequence[LabelledPicture],
    preprocessing: Preprocessing,
    batch: int = BATCH_PICTURES,
) -> EnsembleLogits:
    """Return the classifier's logits for all samples, as they are served, in the order given."""
    if not samples:
        raise MeasurementInvalid("there are no pictures to measure on: name a test set that has some")
    parts = [
        classifier.member_logits(each.images) for each in load_batches(served_batches(samples, batch), preprocessing)
    ]
    embeddings = [part.embedding for part in parts if part.embedding is not None]
    return EnsembleLogits(
        labels=parts[0].labels,
        logits=tuple(torch.cat(logits) for logits in zip(*(part.logits for part in parts), strict=True)),
        embedding=torch.cat(embeddings) if embeddings else None,
        prototypes=parts[0].prototypes,
    )


def accuracy(composed: ComposedScores, truths: Sequence[str]) -> float:
    """Return the share of pictures whose best label is the true one; a label outside the union counts as wrong."""
    if not truths or len(truths) != len(composed.scores):
        raise MeasurementInvalid(
            f"{len(truths)} true labels came with scores for {len(composed.scores)} pictures: give one for each"
        )
    if not torch.isfinite(composed.scores).all():
        raise MeasurementInvalid("a score is not a finite number: train again with a lower rate")
    best: list[int] = composed.scores.argmax(dim=1).tolist()
    correct = sum(int(composed.labels[index] == truth) for index, truth in zip(best, truths, strict=True))
    return correct / len(truths)
