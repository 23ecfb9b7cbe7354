"""The learning rates are the paper's, computed by hand."""

import math

import pytest

from alacarte.prompting.prompt.metadata import Variant
from trainer.recipe import Recipe
from trainer.schedule import learning_rate, peak_rate

STEPS = 50  # of an epoch
PEAK = 0.003125


@pytest.mark.parametrize(
    ("epochs", "step", "rate"),
    [
        (80, 0, 1e-5),
        (80, 1, 1e-5 + (PEAK - 1e-5) / STEPS),
        (80, STEPS // 2, (1e-5 + PEAK) / 2),
        (81, STEPS * 21, 1e-6 + (PEAK - 1e-6) * (1 + math.sqrt(0.5)) / 2),  # the fall is 80 epochs long
        (81, STEPS * 41, (PEAK + 1e-6) / 2),
        (81, STEPS * 81, 1e-6),
    ],
)
def test_the_rate_rises_linearly_for_an_epoch_and_falls_as_a_cosine(epochs: int, step: int, rate: float) -> None:
    assert learning_rate(Recipe(epochs=epochs), step, STEPS) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("variant", "peak"), [("deep", 0.003125), ("deep-shared", 0.003125), ("shallow", 0.003125), ("head-only", 0.015625)]
)
def test_the_rate_is_at_its_peak_when_the_first_epoch_ends(variant: Variant, peak: float) -> None:
    recipe = Recipe(variant=variant)

    assert learning_rate(recipe, STEPS, STEPS) == pytest.approx(peak, rel=1e-12)
    assert max(learning_rate(recipe, step, STEPS) for step in range(80 * STEPS)) == pytest.approx(peak, rel=1e-12)


def test_a_larger_batch_scales_the_peak() -> None:
    assert peak_rate(Recipe(batch=256)) == pytest.approx(0.1)
    assert peak_rate(Recipe(batch=16, base_rate=0.8)) == pytest.approx(0.05)


def test_the_recipes_base_rate_overrides_the_variants() -> None:
    assert peak_rate(Recipe(variant="head-only", base_rate=0.1)) == peak_rate(Recipe())
    assert peak_rate(Recipe(base_rate=0.0)) == 0


@pytest.mark.parametrize("warmup", [0, 1, 3, 5])
def test_the_rate_is_positive_and_at_most_the_peak_for_any_warm_up(warmup: int) -> None:
    recipe = Recipe(epochs=3, warmup_epochs=warmup)

    rates = [learning_rate(recipe, step, 4) for step in range(12)]

    assert all(0 < rate <= peak_rate(recipe) for rate in rates)


def test_a_training_of_one_epoch_has_no_warm_up() -> None:
    recipe = Recipe(epochs=1)

    assert learning_rate(recipe, 0, 10) == pytest.approx(peak_rate(recipe))
