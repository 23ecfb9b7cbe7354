"""K-means gives the same centres for points in any order, and every centre has points; the weights of APT-W."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alacarte.prompting.errors import CompositionInvalid, PromptingError
from alacarte.prompting.prompt.prototypes import BETA, kmeans, lloyd, prototype_weights
from tests.prompting.reference import softmax

SIZES = (200, 3, 3, 3, 3, 3, 3, 3)
KMEANS_SCRIPT = (
    "import sys, torch; from alacarte.prompting.prompt.prototypes import kmeans;"
    " torch.set_num_threads(2);"
    " points = torch.randn(777, 320, generator=torch.Generator().manual_seed(5));"
    " sys.stdout.write(kmeans(points, 19, 1).numpy().tobytes().hex())"
)


@st.composite
def clouds(draw: st.DrawFn) -> Tensor:
    """One to forty points on a small grid, so that many of them fall together."""
    width = draw(st.integers(1, 4))
    rows = st.lists(st.integers(-3, 3), min_size=width, max_size=width)
    return torch.tensor(draw(st.lists(rows, min_size=1, max_size=40)), dtype=torch.float32)


def distinct(points: Tensor) -> set[tuple[float, ...]]:
    return {tuple(row) for row in points.tolist()}


def spread(points: Tensor, centres: Tensor) -> float:
    """The sum of the squared distances to the nearest centre."""
    return float((points[:, None] - centres[None]).double().square().sum(2).amin(1).sum())


def test_well_apart_clusters_are_found_with_their_means() -> None:
    random = torch.Generator().manual_seed(0)
    homes = torch.tensor([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0]])
    points = torch.cat([home + torch.randn(25, 2, generator=random) for home in homes])

    centres = kmeans(points, 4, seed=0)

    expected = points.reshape(4, 25, 2).mean(1)
    nearest = torch.cdist(expected, centres).argmin(1)
    assert sorted(nearest.tolist()) == [0, 1, 2, 3]
    torch.testing.assert_close(centres[nearest], expected)


@given(clouds(), st.integers(1, 12), st.integers(0, 2**64 - 1))
def test_there_are_as_many_centres_as_asked_for_or_as_there_are_distinct_points(
    points: Tensor, k: int, seed: int
) -> None:
    centres = kmeans(points, k, seed)

    assert centres.shape == (min(k, len(distinct(points))), points.shape[1])
    assert centres.dtype == torch.float32
    assert bool(torch.isfinite(centres).all())


@given(clouds(), st.integers(1, 12), st.integers(0, 9), st.data())
def test_the_order_of_the_points_changes_no_bit(points: Tensor, k: int, seed: int, data: st.DataObject) -> None:
    order = list(data.draw(st.permutations(range(len(points)))))

    assert torch.equal(kmeans(points[order], k, seed), kmeans(points, k, seed))


@given(clouds(), st.integers(1, 12), st.integers(0, 9))
def test_every_centre_is_the_mean_of_the_points_nearest_to_it(points: Tensor, k: int, seed: int) -> None:
    centres = kmeans(points, k, seed)

    # A point halfway between two centres may belong to either: one more step must not better the centres.
    nearest = torch.cdist(points, centres).argmin(1)
    means = [points[nearest == index].mean(0) for index in sorted(set(nearest.tolist()))]
    assert spread(points, centres) <= spread(points, torch.stack(means)) + 1e-3


@given(clouds(), st.integers(0, 9))
def test_one_centre_is_the_mean_of_all_points_with_their_repetitions(points: Tensor, seed: int) -> None:
    torch.testing.assert_close(kmeans(points, 1, seed), points.mean(0, keepdim=True), atol=1e-6, rtol=1e-6)


@given(clouds(), st.integers(0, 9))
def test_with_enough_centres_every_distinct_point_is_one(points: Tensor, seed: int) -> None:
    centres = kmeans(points, len(points), seed)

    assert distinct(centres) == distinct(points)
    assert len(centres) == len(distinct(points))


def test_one_point_is_its_own_centre() -> None:
    point = torch.tensor([[0.1, -2.0, 3e30]])

    assert torch.equal(kmeans(point, 20, seed=0), point)


def test_equal_points_are_one_centre_whatever_the_sign_of_their_zeros() -> None:
    points = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]])

    assert kmeans(points, 3, seed=0).tolist() == [[0.0, 1.0]]


def test_points_that_float32_can_barely_tell_apart_stay_apart() -> None:
    near = torch.tensor([1.0, 1.0 + 2**-23])
    points = torch.stack([near, near.flip(0), torch.tensor([5.0, 5.0])])

    assert distinct(kmeans(points, 3, seed=0)) == distinct(points)


@pytest.mark.parametrize("scale", [1e-38, 3e38])
def test_the_smallest_and_largest_numbers_neither_vanish_nor_overflow(scale: float) -> None:
    points = torch.tensor([[-1.0], [-0.9], [0.9], [1.0]]) * scale

    centres = kmeans(points, 2, seed=0)

    torch.testing.assert_close(centres.sort(0).values / scale, torch.tensor([[-0.95], [0.95]]))


def test_a_start_that_leaves_centres_without_points_gives_them_the_worst_served() -> None:
    points = np.array([[0.0], [1.0], [10.0], [30.0]])
    hopeless = np.array([[1.0], [500.0], [600.0]])

    centres = lloyd(points, np.ones(4), hopeless)

    assert sorted(centres[:, 0]) == [0.5, 10.0, 30.0]


@pytest.mark.parametrize("seed", range(10))
def test_clusters_far_apart_are_all_found_however_small(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    homes = torch.arange(8.0)[:, None] * 1000
    points = torch.cat([home + torch.randn(size, 1, generator=random) for home, size in zip(homes, SIZES, strict=True)])

    centres = kmeans(points, 8, seed)

    assert sorted((centres[:, 0] / 1000).round().tolist()) == list(range(8))


def test_the_start_is_drawn_by_the_seed() -> None:
    points = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))

    assert len({kmeans(points, 8, seed).numpy().tobytes() for seed in range(8)}) > 1


def test_centres_after_lloyd_serve_better_than_random_points() -> None:
    points = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))

    assert spread(points, kmeans(points, 10, seed=0)) < 0.9 * spread(points, points[:10])


def test_the_bits_depend_on_neither_process_nor_threads() -> None:
    points = torch.randn(777, 320, generator=torch.Generator().manual_seed(5))

    away = subprocess.run(
        [sys.executable, "-c", KMEANS_SCRIPT],
        env={"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert away == kmeans(points, 19, 1).numpy().tobytes().hex()


def test_half_precision_points_and_gradients_are_taken() -> None:
    points = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float16).requires_grad_()

    centres = kmeans(points, 1, seed=0)

    assert centres.tolist() == [[2.0, 3.0]]
    assert not centres.requires_grad


@pytest.mark.parametrize(
    ("points", "k", "seed", "reason"),
    [
        *((torch.zeros(shape), 2, 0, r"shape \(n, D\)") for shape in [(0, 3), (3, 0), (3,), (1, 2, 3)]),
        *((torch.tensor([[0.0], [number]]), 2, 0, "finite") for number in (math.nan, math.inf, -math.inf)),
        (torch.zeros(2, 2), 0, 0, "at least 1, not 0"),
        (torch.zeros(2, 2), 1, -1, "-1"),
    ],
)
def test_invalid_points_counts_and_seeds_are_refused(points: Tensor, k: int, seed: int, reason: str) -> None:
    with pytest.raises(PromptingError, match=reason):
        kmeans(points, k, seed)


def test_the_weights_equal_an_example_computed_by_hand() -> None:
    embedding = torch.tensor([[0.0, 0.0], [6.0, 8.0]])
    prototypes = [torch.tensor([[3.0, 4.0], [30.0, 40.0]]), torch.tensor([[0.0, 1.0]])]

    weights = prototype_weights(embedding, prototypes)

    expected = [softmax(-0.1 * 5, -0.1 * 1), softmax(-0.1 * 5, -0.1 * math.hypot(6, 7))]
    torch.testing.assert_close(weights, torch.tensor(expected))
    assert BETA == 0.1


def test_a_larger_beta_gives_the_nearest_more_weight() -> None:
    prototypes = [torch.tensor([[1.0]]), torch.tensor([[2.0]])]

    weights = prototype_weights(torch.zeros(1, 1), prototypes, beta=3.0)

    torch.testing.assert_close(weights, torch.tensor([softmax(-3.0, -6.0)]))


def test_small_distances_far_from_the_origin_keep_their_digits() -> None:
    far = torch.full((1, 64), 1000.0)
    prototypes = [(far + offset).expand(30, 64) for offset in (0.25, 0.5)]

    weights = prototype_weights(far, prototypes)

    torch.testing.assert_close(weights, torch.tensor([softmax(-0.1 * 0.25 * 8, -0.1 * 0.5 * 8)]))


def test_an_images_weights_do_not_depend_on_the_rest_of_the_batch() -> None:
    random = torch.Generator().manual_seed(3)
    embedding = torch.randn(33, 192, generator=random)
    prototypes = [torch.randn(20, 192, generator=random) for _ in range(3)]

    together = prototype_weights(embedding, prototypes)

    alone = torch.cat([prototype_weights(row[None], prototypes) for row in embedding])
    assert torch.equal(together, alone)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 3), st.integers(0, 2**32))
def test_weights_sum_to_one_and_follow_their_prompts(sizes: list[int], images: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    embedding = 9 * torch.randn(images, 3, generator=random)
    prototypes = [9 * torch.randn(size, 3, generator=random) for size in sizes]
    permutation = torch.randperm(len(sizes), generator=random).tolist()

    weights = prototype_weights(embedding, prototypes)
    permuted = prototype_weights(embedding, [prototypes[i] for i in permutation])

    torch.testing.assert_close(weights.sum(1), torch.ones(images))
    torch.testing.assert_close(permuted, weights[:, permutation])


def test_half_precision_embeddings_are_weighted_in_float32() -> None:
    embedding, prototypes = torch.randn(2, 8).half(), [torch.randn(3, 8).bfloat16(), torch.randn(2, 8)]

    weights = prototype_weights(embedding, prototypes)

    assert weights.dtype == torch.float32
    assert torch.equal(weights, prototype_weights(embedding.float(), [member.float() for member in prototypes]))


def test_weights_of_an_empty_set_are_refused() -> None:
    with pytest.raises(CompositionInvalid, match="at least one"):
        prototype_weights(torch.zeros(1, 2), [])


@pytest.mark.parametrize(
    ("embedding", "prototypes"),
    [((2,), (1, 2)), ((1, 2), (1, 3)), ((1, 2), (0, 2)), ((1, 2), (2,)), ((1, 2), (1, 1, 2))],
)
def test_prototypes_of_another_width_or_none_are_refused(
    embedding: tuple[int, ...], prototypes: tuple[int, ...]
) -> None:
    with pytest.raises(CompositionInvalid, match="must have the shape"):
        prototype_weights(torch.zeros(embedding), [torch.zeros(prototypes)])
