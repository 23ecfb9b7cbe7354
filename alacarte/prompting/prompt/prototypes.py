"""The prototypes of a shard: K-means over its class-token embeddings, the same bits wherever it runs.

K-means is written out here because a prompt's bytes may depend on nothing but its own shard: not on the order
in which the pictures were stored, and not on how many threads a library's matrix product happened to use.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alacarte.prompting.errors import PromptingError

# n points, m distinct points, D width, K prototypes

MAX_ITERATIONS = 100
_ROWS = 128  # points a step, so that a step's differences stay in the processor's cache

Floats = NDArray[np.float64]


def kmeans(points: Tensor, k: int, seed: int) -> Tensor:
    """The centres (K, D) in float32 of the points (n, D), with K = min(k, distinct points).

    The order of the points changes nothing.
    """
    if points.ndim != 2 or not points.numel():
        raise PromptingError(f"prototypes want points of shape (n, D), not {tuple(points.shape)}")
    if k < 1:
        raise PromptingError(f"at least one prototype is wanted, not {k}")
    if seed < 0:
        raise PromptingError(f"a seed is not negative, as {seed} is")
    # From float32, so that neither a square nor the result can overflow.
    rows = points.detach().to("cpu", torch.float32).numpy().astype(np.float64)
    if not np.isfinite(rows).all():
        raise PromptingError("prototypes want finite points; some of these are NaN or infinite")
    distinct, counts = _distinct(rows)
    centres = distinct
    if k < len(distinct):
        centres = lloyd(distinct, counts, _start(distinct, counts, k, np.random.default_rng(seed)))
    return torch.from_numpy(centres.astype(np.float32))


def _distinct(rows: Floats) -> tuple[Floats, Floats]:
    """The distinct points (m, D), in an order that their values decide, and how often each is there (m)."""
    rows = np.ascontiguousarray(rows + 0.0)  # -0.0 becomes 0.0: equal numbers are equal bytes
    as_bytes = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, counts = np.unique(as_bytes, return_index=True, return_counts=True)
    return rows[first], counts.astype(np.float64)


def _squared_distances(points: Floats, centre: Floats) -> Floats:
    """The squared distance (m) of every point to the centre, by differences: what is distinct is apart."""
    squared = np.empty(len(points))
    for begin in range(0, len(points), _ROWS):
        difference = points[begin : begin + _ROWS] - centre
        np.einsum("nd,nd->n", difference, difference, out=squared[begin : begin + _ROWS])
    return squared


def _start(points: Floats, counts: Floats, k: int, random: np.random.Generator) -> Floats:
    """k distinct points to start from (k-means++): each drawn by its squared distance to those before it."""
    chosen = [_draw(counts, random)]
    nearest = _squared_distances(points, points[chosen[0]])
    while len(chosen) < k:
        chosen.append(_draw(counts * nearest, random))  # one already chosen has no mass left
        nearest = np.minimum(nearest, _squared_distances(points, points[chosen[-1]]))
    return points[chosen]


def _draw(mass: Floats, random: np.random.Generator) -> int:
    """An index, drawn in proportion to its mass; never one without mass."""
    reach = np.cumsum(mass)
    drawn = np.searchsorted(reach, random.random() * reach[-1], side="right")
    # Rounding can carry a draw to the very end: then the last with a mass is meant.
    return int(min(drawn, np.flatnonzero(mass)[-1]))


def lloyd(points: Floats, counts: Floats, centres: Floats) -> Floats:
    """Centres, none without points, that no step moves any more; or those after MAX_ITERATIONS steps."""
    # Seen from their mean the points are small: the expanded square below loses nothing that float32 has.
    origin = (points * counts[:, None]).sum(axis=0) / counts.sum()
    points, centres = points - origin, centres - origin
    weighted = points * counts[:, None]
    lengths = np.einsum("nd,nd->n", points, points)
    squared = np.empty((len(points), len(centres)))
    moved = np.ones(len(centres), dtype=bool)
    for _ in range(MAX_ITERATIONS):
        near = centres[moved]  # only what moved is measured again
        products = np.einsum("nd,kd->nk", points, near)  # einsum by itself never goes through BLAS
        squared[:, moved] = lengths[:, None] - 2 * products + np.einsum("kd,kd->k", near, near)
        members = _members(squared)
        owned = [members == index for index in range(len(centres))]
        means = np.stack([weighted[own].sum(axis=0) / counts[own].sum() for own in owned])
        moved = (means != centres).any(axis=1)
        centres = means
        if not moved.any():
            break
    home: Floats = centres + origin
    return home


def _members(squared: Floats) -> NDArray[np.intp]:
    """The centre (m) that each point belongs to: the nearest in squared (m, K), but none is left without."""
    members: NDArray[np.intp] = squared.argmin(axis=1)
    distances = squared.min(axis=1)
    sizes = np.bincount(members, minlength=squared.shape[1])
    for empty in np.flatnonzero(sizes == 0):
        # The point worst served becomes a centre of its own; one that is alone with its centre stays there.
        worst = np.where(sizes[members] > 1, distances, -np.inf).argmax()
        sizes[members[worst]] -= 1
        sizes[empty] = 1
        members[worst] = empty
    return members
