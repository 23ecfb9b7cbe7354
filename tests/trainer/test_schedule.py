"""The learning rates are the paper's, computed by hand."""

import math

import pytest

from alacarte.prompting.prompt.metadata import Variant
from trainer.recipe import Recipe
from trainer.schedule import learning_rate, peak_rate

STEPS = 50  # of an epoch


def test_the_rate_starts_at_the_warm_up_rate() -> None:
    assert learning_rate(Recipe(), 0, STEPS) == pytest.approx(1e-5, rel=1e-12)


def test_the_rate_rises_linearly_during_the_first_epoch() -> None:
    recipe = Recipe()

    assert learning_rate(recipe, STEPS // 2, STEPS) == pytest.approx((1e-5 + 0.003125) / 2, rel=1e-12)
    assert learning_rate(recipe, 1, STEPS) == pytest.approx(1e-5 + (0.003125 - 1e-5) / STEPS, rel=1e-12)


@pytest.mark.parametrize(
    ("variant", "peak"), [("deep", 0.003125), ("deep-shared", 0.003125), ("shallow", 0.003125), ("head-only", 0.015625)]
)
def test_the_rate_is_at_its_peak_when_the_first_epoch_ends(variant: Variant, peak: float) -> None:
    recipe = Recipe(variant=variant)

    assert learning_rate(recipe, STEPS, STEPS) == pytest.approx(peak, rel=1e-12)
    assert max(learning_rate(recipe, step, STEPS) for step in range(80 * STEPS)) == pytest.approx(peak, rel=1e-12)


def test_the_rate_falls_as_a_cosine_to_the_least_rate() -> None:
    recipe = Recipe(epochs=81)  # so that the fall is 80 epochs long

    assert learning_rate(recipe, STEPS * 41, STEPS) == pytest.approx((0.003125 + 1e-6) / 2, rel=1e-12)
    quarter = 1e-6 + (0.003125 - 1e-6) * (1 + math.sqrt(0.5)) / 2
    assert learning_rate(recipe, STEPS * 21, STEPS) == pytest.approx(quarter, rel=1e-12)
    assert learning_rate(recipe, STEPS * 81, STEPS) == pytest.approx(1e-6, rel=1e-9)


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
