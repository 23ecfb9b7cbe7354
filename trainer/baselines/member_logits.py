"""Opinions: what the members of a set say of pictures, kept apart so that one pass serves every way to compose.

Whoever asks once can then average, vote or weight, leave members out, or look at one alone, at no further cost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.compose import ComposedScores, compose, prototype_weights
from alacarte.prompting.errors import CompositionInvalid

# n pictures, k members, C_i labels of member i, K_i prototypes of member i, D width, S side


@dataclass(frozen=True)
class EnsembleLogits:
    """What each of k members says of the same n pictures, over its own labels."""

    labels: tuple[tuple[str, ...], ...]  # of each member
    logits: tuple[Tensor, ...]  # of each member, (n, C_i), on the CPU
    embedding: Tensor | None = None  # (n, D), where the backbone's states do not depend on the members
    prototypes: tuple[Tensor, ...] | None = None  # of each member, (K_i, D), if there is an embedding

    def only(self, members: Iterable[int]) -> "EnsembleLogits":
        """The same without the other members: what a smaller set would have said."""
        kept = tuple(members)
        prototypes = self.prototypes
        return EnsembleLogits(
            labels=tuple(self.labels[member] for member in kept),
            logits=tuple(self.logits[member] for member in kept),
            embedding=self.embedding,
            prototypes=None if prototypes is None else tuple(prototypes[member] for member in kept),
        )

    def about(self, pictures: Sequence[int]) -> "EnsembleLogits":
        """The same about some of the pictures only, by their places."""
        places = torch.tensor(pictures)
        return EnsembleLogits(
            labels=self.labels,
            logits=tuple(logits[places] for logits in self.logits),
            embedding=None if self.embedding is None else self.embedding[places],
            prototypes=self.prototypes,
        )

    def compose(self, composition: Composition = "average", weighting: Weighting = "none") -> ComposedScores:
        """One answer over the union of the members' labels."""
        weights = None
        if weighting == "prototypes":
            if self.embedding is None or self.prototypes is None:
                raise CompositionInvalid("these members have no prototypes: use the weighting 'none'")
            weights = prototype_weights(self.embedding, self.prototypes)
        return compose(self.logits, self.labels, composition, weights)


class Classifier(Protocol):
    """Whatever has one or several opinions on images (n, 3, S, S)."""

    def member_logits(self, images: Tensor) -> EnsembleLogits:
        """What each member says of each image; their order never changes."""
        ...


def concat_members(opinions: Sequence[EnsembleLogits]) -> EnsembleLogits:
    """An ensemble of classifiers that were asked about the same pictures, which cannot be weighted."""
    return EnsembleLogits(
        labels=tuple(labels for each in opinions for labels in each.labels),
        logits=tuple(logits for each in opinions for logits in each.logits),
    )


def concat_batches(opinions: Sequence[EnsembleLogits]) -> EnsembleLogits:
    """One classifier's opinions on several batches of pictures as if they had been one batch."""
    embeddings = [each.embedding for each in opinions if each.embedding is not None]
    return EnsembleLogits(
        labels=opinions[0].labels,
        logits=tuple(torch.cat(parts) for parts in zip(*(each.logits for each in opinions), strict=True)),
        embedding=torch.cat(embeddings) if embeddings else None,
        prototypes=opinions[0].prototypes,
    )
