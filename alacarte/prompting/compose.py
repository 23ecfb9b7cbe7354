"""From each prompt's own answer to one answer over the union of their labels, weighted (APT-W) or not.

Every function takes a batch of images which share one set of prompts, and treats the set as a set: the order
of its members changes nothing but the last bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.errors import CompositionInvalid

# B images, k prompts, D width, C labels in the union
# K_i prototypes of prompt i, C_i labels of prompt i, S = sum of the C_i


BETA = 0.1  # inverse temperature of the weights, as in the paper


@dataclass(frozen=True)
class ComposedScores:
    """The answer of a set: a row of scores for every image, which sums to one."""

    labels: tuple[str, ...]  # sorted
    scores: Tensor  # (B, C)


def prototype_weights(embedding: Tensor, prototypes: Sequence[Tensor], beta: float = BETA) -> Tensor:
    """The weights (B, k) of APT-W: softmax(-beta d), d_i from embedding (B, D) to the nearest of (K_i, D)."""
    if not prototypes:
        raise CompositionInvalid("there are no prompts to weight: name at least one")
    if embedding.ndim != 2:
        raise CompositionInvalid(f"the embedding must have the shape (B, D), not {tuple(embedding.shape)}")
    width = embedding.shape[1]
    for member in prototypes:
        if member.ndim != 2 or member.shape[0] < 1 or member.shape[1] != width:
            raise CompositionInvalid(f"prototypes must have the shape (K >= 1, {width}), not {tuple(member.shape)}")
    # Pair by pair: a matrix product cancels digits, and its last bits depend on the rest of the batch.
    distances = torch.cdist(
        embedding.float(),
        torch.cat([member.float() for member in prototypes]),
        compute_mode="donot_use_mm_for_euclid_dist",
    )  # (B, sum of the K_i)
    members = torch.split_with_sizes(distances, [len(member) for member in prototypes], dim=1)
    nearest = torch.stack([member.amin(dim=1) for member in members], dim=1)  # (B, k)
    return torch.softmax(-beta * nearest, dim=1)


def compose(
    logits: Sequence[Tensor],
    labels: Sequence[tuple[str, ...]],
    composition: Composition,
    weights: Tensor | None = None,
) -> ComposedScores:
    """One answer from the logits (B, C_i) of k prompts over their own labels, weighted by (B, k) if given."""
    validate_composition(composition, "none" if weights is None else "prototypes")
    _check(logits, labels, weights)
    members = [member.float() for member in logits]
    union = _Union(labels, members[0].device)
    match composition, weights:
        case "average", None:
            scores = _average(members, union)
        case "average", Tensor():
            scores = torch.softmax(union.sum(_weighted(members, weights)) / len(members), dim=1)
        case "concat", None:
            scores = torch.softmax(union.sum(members) / union.knowers, dim=1)
        case "concat", Tensor():
            scores = torch.softmax(union.sum(_weighted(members, weights)) / union.knowers, dim=1)
        case _:
            scores = _vote(members, union)
    return ComposedScores(union.labels, scores)


def validate_composition(composition: Composition, weighting: Weighting) -> None:
    """Raise CompositionInvalid if either name is unknown or the composition does not support the weighting."""
    if weighting not in get_args(Weighting):
        raise CompositionInvalid(f"no weighting {weighting!r}: use {' or '.join(get_args(Weighting))}")
    if composition not in get_args(Composition):
        raise CompositionInvalid(f"no composition {composition!r}: use 'average', 'concat' or 'vote'")
    if composition == "vote" and weighting != "none":
        raise CompositionInvalid(
            "votes cannot be weighted: use the weighting 'none', or the composition 'average' or 'concat'"
        )


@dataclass(frozen=True)
class _Union:
    """The labels of all members, and where each member's labels stand among them, which is found when it is asked."""

    members: Sequence[tuple[str, ...]]
    device: torch.device

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All of them, sorted; shards of one source mostly share theirs."""
        return tuple(sorted(set(chain.from_iterable(set(self.members)))))

    @property
    def is_everyones(self) -> bool:
        """Whether every member knows all labels, in their order."""
        return all(own == self.labels for own in self.members)

    @cached_property
    def _column(self) -> Tensor:
        place = {label: column for column, label in enumerate(self.labels)}
        columns = {own: np.array([place[label] for label in own]) for own in set(self.members)}
        return torch.from_numpy(np.concatenate([columns[own] for own in self.members]))

    # Sent without waiting for the device.
    @cached_property
    def column(self) -> Tensor:
        """(S), the members' labels one after the other."""
        return self._column.to(self.device, non_blocking=True)

    @property
    def knowers(self) -> Tensor:
        """(C), how many members know a label."""
        return torch.bincount(self._column).float().to(self.device, non_blocking=True)

    @property
    def starts(self) -> tuple[int, ...]:
        """(k), where each member begins in the column."""
        return tuple(accumulate((len(own) for own in self.members[:-1]), initial=0))

    def sum(self, members: Sequence[Tensor]) -> Tensor:
        """The sum (B, C) of the members (B, C_i); a label that a member does not know gets 0 from it."""
        values = torch.cat(list(members), dim=1)  # (B, S)
        return values.new_zeros(len(values), len(self.labels)).index_add_(1, self.column, values)


def _average(members: Sequence[Tensor], union: _Union) -> Tensor:
    """The mean (B, C) of the members' probabilities."""
    if union.is_everyones:  # as with the shards of one source: one step for all of them
        return torch.stack(list(members)).softmax(dim=2).mean(dim=0)
    return union.sum([torch.softmax(member, dim=1) for member in members]) / len(members)


def _vote(members: Sequence[Tensor], union: _Union) -> Tensor:
    """Votes and mean probability (B, C) in one number: the probability decides only between equal votes."""
    choices = [member.argmax(dim=1) + start for member, start in zip(members, union.starts, strict=True)]
    chosen = union.column[torch.stack(choices, dim=1)]  # (B, k)
    probability = _average(members, union)
    votes = torch.zeros_like(probability).scatter_add_(1, chosen, probability.new_ones(chosen.shape))
    return (votes + probability) / (len(members) + 1)


def _weighted(members: Sequence[Tensor], weights: Tensor) -> list[Tensor]:
    """The members' logits (B, C_i), each row times its weight in (B, k)."""
    return [member * weight[:, None] for member, weight in zip(members, weights.float().unbind(1), strict=True)]


def _check(logits: Sequence[Tensor], labels: Sequence[tuple[str, ...]], weights: Tensor | None) -> None:
    """Refuse members that do not belong together, by their shapes alone."""
    if not logits:
        raise CompositionInvalid("there are no prompts to compose: name at least one")
    if len(logits) != len(labels):
        raise CompositionInvalid(f"there are logits of {len(logits)} prompts, but labels of {len(labels)}")
    images = logits[0].shape[:1]
    for own in set(labels):
        if not own or len(set(own)) != len(own):
            raise CompositionInvalid("every prompt must know a label, and none of its labels twice")
    for member, own in zip(logits, labels, strict=True):
        if member.shape != (*images, len(own)):
            raise CompositionInvalid(
                f"{len(own)} labels want logits of shape (B, {len(own)}), with the same B for every prompt,"
                f" not {tuple(member.shape)}"
            )
    if weights is not None and weights.shape != (*images, len(logits)):
        raise CompositionInvalid(
            f"{len(logits)} prompts want weights of shape (B, {len(logits)}), not {tuple(weights.shape)}"
        )
