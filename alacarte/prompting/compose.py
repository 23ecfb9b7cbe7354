"""Compose the logits of several prompts into scores over the union of their labels.

Every function takes a batch of images that share one set of prompts. The order of the set changes nothing but the last
bits. The weights of APT-W are computed in `prompt/prototypes.py`.
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

# B images, k prompts (members), C labels in the union, C_i labels of prompt i, S = sum of the C_i


@dataclass(frozen=True)
class ComposedScores:
    """The scores of a set of prompts: a row for every image, which sums to one."""

    labels: tuple[str, ...]  # sorted
    scores: Tensor  # (B, C)


def compose(
    logits: Sequence[Tensor], labels: Sequence[tuple[str, ...]], composition: Composition, weights: Tensor | None = None
) -> ComposedScores:
    """Compose the logits (B, C_i) of k prompts over their own labels, weighted by (B, k) if given."""
    validate_composition(composition, "none" if weights is None else "prototypes")
    _check_shapes(logits, labels, weights)
    members = [member.float() for member in logits]
    union = _LabelUnion(labels, members[0].device)
    match composition, weights:
        case "average", None:
            scores = _average(members, union)
        case "average", Tensor():
            scores = torch.softmax(union.sum(_weighted(members, weights)) / len(members), dim=1)
        case "concat", None:
            scores = torch.softmax(union.sum(members) / union.member_counts, dim=1)
        case "concat", Tensor():
            scores = torch.softmax(union.sum(_weighted(members, weights)) / union.member_counts, dim=1)
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
class _LabelUnion:
    """The labels of all members, and the index of each member's labels among them, computed when needed."""

    members: Sequence[tuple[str, ...]]
    device: torch.device

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels, sorted."""
        return tuple(sorted(set(chain.from_iterable(set(self.members)))))  # most shards of a source share theirs

    @property
    def is_shared_by_all(self) -> bool:
        """Whether every member has all labels, in this order."""
        return all(own == self.labels for own in self.members)

    @cached_property
    def _column(self) -> Tensor:
        index = {label: column for column, label in enumerate(self.labels)}
        columns = {own: np.array([index[label] for label in own]) for own in set(self.members)}
        return torch.from_numpy(np.concatenate([columns[own] for own in self.members]))

    @cached_property
    def column(self) -> Tensor:
        """(S), the index of every label of every member, one member after the other."""
        return self._column.to(self.device, non_blocking=True)  # without waiting for the device

    @property
    def member_counts(self) -> Tensor:
        """(C), the number of members that have a label."""
        return torch.bincount(self._column).float().to(self.device, non_blocking=True)

    @property
    def starts(self) -> tuple[int, ...]:
        """(k), the start of each member in `column`."""
        return tuple(accumulate((len(own) for own in self.members[:-1]), initial=0))

    def sum(self, members: Sequence[Tensor]) -> Tensor:
        """Return the sum (B, C) of the members (B, C_i); a label that a member does not have gets 0 from it."""
        values = torch.cat(list(members), dim=1)  # (B, S)
        return values.new_zeros(len(values), len(self.labels)).index_add_(1, self.column, values)


def _average(members: Sequence[Tensor], union: _LabelUnion) -> Tensor:
    """Return the mean (B, C) of the members' probabilities."""
    if union.is_shared_by_all:  # as the shards of one source: one step for all
        return torch.stack(list(members)).softmax(dim=2).mean(dim=0)
    return union.sum([torch.softmax(member, dim=1) for member in members]) / len(members)


def _vote(members: Sequence[Tensor], union: _LabelUnion) -> Tensor:
    """Return votes and mean probability (B, C) in one number: the probability decides between equal votes only."""
    choices = [member.argmax(dim=1) + start for member, start in zip(members, union.starts, strict=True)]
    chosen = union.column[torch.stack(choices, dim=1)]  # (B, k)
    probability = _average(members, union)
    votes = torch.zeros_like(probability).scatter_add_(1, chosen, probability.new_ones(chosen.shape))
    return (votes + probability) / (len(members) + 1)


def _weighted(members: Sequence[Tensor], weights: Tensor) -> list[Tensor]:
    """Return the members' logits (B, C_i), each row times its weight in (B, k)."""
    return [member * weight[:, None] for member, weight in zip(members, weights.float().unbind(1), strict=True)]


def _check_shapes(logits: Sequence[Tensor], labels: Sequence[tuple[str, ...]], weights: Tensor | None) -> None:
    """Refuse members whose shapes do not fit each other."""
    if not logits:
        raise CompositionInvalid("there are no prompts to compose: name at least one")
    if len(logits) != len(labels):
        raise CompositionInvalid(f"there are logits of {len(logits)} prompts, but labels of {len(labels)}")
    images = logits[0].shape[:1]
    for own in set(labels):
        if not own or len(set(own)) != len(own):
            raise CompositionInvalid("every prompt must have a label, and none of its labels twice")
    for member, own in zip(logits, labels, strict=True):
        if member.shape != (*images, len(own)):
            raise CompositionInvalid(
                f"logits over {len(own)} labels must have the shape (B, {len(own)}), with the same B for every prompt,"
                f" not {tuple(member.shape)}"
            )
    if weights is not None and weights.shape != (*images, len(logits)):
        raise CompositionInvalid(
            f"the weights of {len(logits)} prompts must have the shape (B, {len(logits)}), not {tuple(weights.shape)}"
        )
