"""Prototypes of a shard, and the weighting of prompts by them (APT-W).

The prototypes are K-means centres of the shard's class-token embeddings. K-means is written out here because a prompt's
bytes may depend on its own shard alone: not on the order in which pictures are stored, and not on the number of threads
of a library's matrix product.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alacarte.prompting.errors import CompositionInvalid, PromptingError

# B images, k prompts, K_i prototypes of prompt i, D width; n points, m distinct points, K centres

BETA = 0.1  # inverse temperature of the weights, as in the paper
MAX_ITERATIONS = 100
_ROWS = 128  # points a step, so that a step's differences stay in the processor's cache

Floats = NDArray[np.float64]


def prototype_weights(embedding: Tensor, prototypes: Sequence[Tensor], beta: float = BETA) -> Tensor:
    """Return the weights (B, k) of APT-W: softmax(-beta d), d_i from embedding (B, D) to the nearest of (K_i, D)."""
    if not prototypes:
        raise CompositionInvalid("there are no prompts to weight: name at least one")
    if embedding.ndim != 2:
        raise CompositionInvalid(f"the embedding must have the shape (B, D), not {tuple(embedding.shape)}")
    width = embedding.shape[1]
    for each in prototypes:
        if each.ndim != 2 or each.shape[0] < 1 or each.shape[1] != width:
            raise CompositionInvalid(f"prototypes must have the shape (K >= 1, {width}), not {tuple(each.shape)}")
    # Pair by pair: a matrix product cancels digits, and its last bits depend on the rest of the batch.
    distances = torch.cdist(
        embedding.float(), torch.cat([each.float() for each in prototypes]), compute_mode="donot_use_mm_for_euclid_dist"
    )  # (B, sum of the K_i)
    per_prompt = torch.split_with_sizes(distances, [len(each) for each in prototypes], dim=1)  # k of (B, K_i)
    nearest = torch.stack([each.amin(dim=1) for each in per_prompt], dim=1)  # (B, k)
    return torch.softmax(-beta * nearest, dim=1)


def kmeans(points: Tensor, k: int, seed: int) -> Tensor:
    """Return the centres (K, D) in float32 of the points (n, D), with K = min(k, distinct points).

    The result does not depend on the order of the points.
    """
    if points.ndim != 2 or not points.numel():
        raise PromptingError(f"the points must have the shape (n, D), not {tuple(points.shape)}")
    if k < 1:
        raise PromptingError(f"the number of prototypes must be at least 1, not {k}")
    if seed < 0:
        raise PromptingError(f"the seed must not be negative: {seed}")
    # From float32, so that neither a square nor the result can overflow.
    rows = points.detach().to("cpu", torch.float32).numpy().astype(np.float64)
    if not np.isfinite(rows).all():
        raise PromptingError("the points must be finite; some of them are NaN or infinite")
    distinct, counts = _distinct(rows)
    centres = distinct
    if k < len(distinct):
        centres = lloyd(distinct, counts, _initial_centres(distinct, counts, k, np.random.default_rng(seed)))
    return torch.from_numpy(centres.astype(np.float32))


def _distinct(rows: Floats) -> tuple[Floats, Floats]:
    """Return the distinct points (m, D), sorted by their bytes, and the count of each (m)."""
    rows = np.ascontiguousarray(rows + 0.0)  # -0.0 becomes 0.0: equal numbers are equal bytes
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, counts = np.unique(as_bytes, return_index=True, return_counts=True)
    return rows[first], counts.astype(np.float64)


def _squared_distances(points: Floats, centre: Floats) -> Floats:
    """Return the squared distance (m) of every point to the centre, by differences: 0 for the same point only."""
    squared = np.empty(len(points))
    for begin in range(0, len(points), _ROWS):
        difference = points[begin : begin + _ROWS] - centre
        np.einsum("nd,nd->n", difference, difference, out=squared[begin : begin + _ROWS])
    return squared


def _initial_centres(points: Floats, counts: Floats, k: int, random: np.random.Generator) -> Floats:
    """Draw k distinct points (k-means++), each in proportion to its squared distance to those before it."""
    chosen = [_draw(counts, random)]
    nearest = _squared_distances(points, points[chosen[0]])
    while len(chosen) < k:
        chosen.append(_draw(counts * nearest, random))  # one already chosen has no mass left
        nearest = np.minimum(nearest, _squared_distances(points, points[chosen[-1]]))
    return points[chosen]


def _draw(mass: Floats, random: np.random.Generator) -> int:
    """Draw an index in proportion to its mass; never one without mass."""
    cumulative = np.cumsum(mass)
    drawn = np.searchsorted(cumulative, random.random() * cumulative[-1], side="right")
    # Rounding can carry a draw beyond the end: then take the last index with a mass.
    return int(min(drawn, np.flatnonzero(mass)[-1]))


def lloyd(points: Floats, counts: Floats, centres: Floats) -> Floats:
    """Move the centres by Lloyd's steps until none moves, or MAX_ITERATIONS times; no centre is left without points."""
    # Relative to their mean the points are small, so the expanded square below keeps all digits of float32.
    origin = (points * counts[:, None]).sum(axis=0) / counts.sum()
    points, centres = points - origin, centres - origin
    weighted = points * counts[:, None]
    lengths = np.einsum("nd,nd->n", points, points)
    squared = np.empty((len(points), len(centres)))
    moved = np.ones(len(centres), dtype=bool)
    for _ in range(MAX_ITERATIONS):
        changed = centres[moved]  # the distances to the others are still valid
        products = np.einsum("nd,kd->nk", points, changed)  # einsum never goes through BLAS here
        squared[:, moved] = lengths[:, None] - 2 * products + np.einsum("kd,kd->k", changed, changed)
        assigned = _assign(squared)
        masks = [assigned == index for index in range(len(centres))]
        means = np.stack([weighted[mask].sum(axis=0) / counts[mask].sum() for mask in masks])
        moved = (means != centres).any(axis=1)
        centres = means
        if not moved.any():
            break
    result: Floats = centres + origin
    return result


def _assign(squared: Floats) -> NDArray[np.intp]:
    """Return the centre (m) of each point: the nearest in squared (m, K), except that every centre gets a point."""
    assigned: NDArray[np.intp] = squared.argmin(axis=1)
    distances = squared.min(axis=1)
    sizes = np.bincount(assigned, minlength=squared.shape[1])
    for empty in np.flatnonzero(sizes == 0):
        # An empty centre gets the point that is farthest from its own centre, unless that would empty the other.
        farthest = np.where(sizes[assigned] > 1, distances, -np.inf).argmax()
        sizes[assigned[farthest]] -= 1
        sizes[empty] = 1
        assigned[farthest] = empty
    return assigned
