"""The recipe's numbers are the paper's, by hand, and settings that training cannot use are refused at once."""

import json
import math
from typing import Any

import pytest

from alacarte.prompting.prompt.metadata import metadata_from_json, metadata_to_json
from alacarte.prompting.prompt.tensors import VARIANTS, PromptMetadata, Variant
from trainer.errors import RecipeInvalid
from trainer.recipe import Recipe

STEPS = 50  # of an epoch


def test_the_defaults_are_the_papers() -> None:
    recipe = Recipe()

    assert (recipe.epochs, recipe.batch, recipe.weight_decay, recipe.warmup_epochs) == (80, 8, 0.02, 1)
    assert (recipe.variant, recipe.memory, recipe.prototypes) == ("deep", 5, 20)
    assert recipe.augment == "randaugment"


def test_the_rate_starts_at_the_papers_start() -> None:
    assert Recipe().rate_at(0, STEPS) == pytest.approx(1e-5, rel=1e-12)


def test_the_rate_rises_in_a_line_during_the_first_epoch() -> None:
    recipe = Recipe()

    assert recipe.rate_at(STEPS // 2, STEPS) == pytest.approx((1e-5 + 0.003125) / 2, rel=1e-12)
    assert recipe.rate_at(1, STEPS) == pytest.approx(1e-5 + (0.003125 - 1e-5) / STEPS, rel=1e-12)


@pytest.mark.parametrize(
    ("variant", "peak"),
    [("deep", 0.003125), ("deep-shared", 0.003125), ("shallow", 0.003125), ("head-only", 0.015625)],
)
def test_the_rate_is_at_its_peak_when_the_first_epoch_ends(variant: Variant, peak: float) -> None:
    recipe = Recipe(variant=variant)

    assert recipe.rate_at(STEPS, STEPS) == pytest.approx(peak, rel=1e-12)
    assert max(recipe.rate_at(step, STEPS) for step in range(80 * STEPS)) == pytest.approx(peak, rel=1e-12)


def test_the_rate_falls_as_a_cosine_to_the_papers_least() -> None:
    recipe = Recipe(epochs=81)  # so that the fall is 80 epochs long

    assert recipe.rate_at(STEPS * 41, STEPS) == pytest.approx((0.003125 + 1e-6) / 2, rel=1e-12)
    quarter = 1e-6 + (0.003125 - 1e-6) * (1 + math.sqrt(0.5)) / 2
    assert recipe.rate_at(STEPS * 21, STEPS) == pytest.approx(quarter, rel=1e-12)
    assert recipe.rate_at(STEPS * 81, STEPS) == pytest.approx(1e-6, rel=1e-9)


def test_a_larger_batch_scales_the_peak() -> None:
    assert Recipe(batch=256).peak_rate == pytest.approx(0.1)
    assert Recipe(batch=16, base_rate=0.8).peak_rate == pytest.approx(0.05)


def test_a_rate_that_is_named_goes_before_the_variants_own() -> None:
    assert Recipe(variant="head-only", base_rate=0.1).peak_rate == Recipe().peak_rate
    assert Recipe(base_rate=0.0).peak_rate == 0


@pytest.mark.parametrize("warmup", [0, 1, 3, 5])
def test_the_rate_exists_at_every_step_whatever_the_warm_up(warmup: int) -> None:
    recipe = Recipe(epochs=3, warmup_epochs=warmup)

    rates = [recipe.rate_at(step, 4) for step in range(12)]

    assert all(0 < rate <= recipe.peak_rate for rate in rates)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("memory", 0),
        ("epochs", 0),
        ("batch", -1),
        ("prototypes", 0),
        ("memory", 65),
        ("views", 0),
        ("warmup_epochs", -1),
        ("weight_decay", -0.1),
        ("weight_decay", math.nan),
        ("label_smoothing", 1.0),
        ("label_smoothing", -0.1),
        ("label_smoothing", math.nan),
        ("base_rate", -1.0),
        ("base_rate", math.inf),
        ("warmup_rate", math.nan),
        ("least_rate", -1e-6),
        ("variant", "deeper"),
        ("augment", "mixup"),
    ],
)
def test_a_setting_that_training_cannot_use_is_refused_by_name(setting: str, value: Any) -> None:
    named = str(value) if isinstance(value, str) else setting
    with pytest.raises(RecipeInvalid, match=named):
        Recipe(**{setting: value})


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_no_prompt_can_carry_is_refused_before_training(seed: int) -> None:
    with pytest.raises(RecipeInvalid, match="seed"):
        Recipe(seed=seed)


@pytest.mark.parametrize("setting", ["base_rate", "weight_decay", "warmup_rate", "least_rate"])
def test_equal_recipes_are_the_same_text_in_a_prompt(setting: str) -> None:
    """A store may give 1.0 back as 1, and the prompt must be the same bytes."""
    whole, real = (Recipe(**{setting: value}) for value in (1, 1.0))  # type: ignore[arg-type]

    assert whole == real
    assert json.dumps(whole.settings()) == json.dumps(real.settings())
    assert json.dumps(Recipe(label_smoothing=0).settings()) == json.dumps(Recipe().settings())


def test_views_take_turns() -> None:
    recipe = Recipe(epochs=5, views=2)

    assert [recipe.view_at(epoch) for epoch in range(5)] == [0, 1, 0, 1, 0]
    assert recipe.views_in_all == 2


def test_every_epoch_has_a_view_of_its_own_unless_told_otherwise() -> None:
    recipe = Recipe(epochs=4)

    assert [recipe.view_at(epoch) for epoch in range(4)] == [0, 1, 2, 3]
    assert recipe.views_in_all == 4


def test_more_views_than_epochs_are_never_looked_at() -> None:
    assert Recipe(epochs=3, views=7).views_in_all == 3


def test_without_augmentation_there_is_one_view_the_picture_as_it_is_served() -> None:
    recipe = Recipe(augment="none")

    assert {recipe.view_at(epoch) for epoch in range(80)} == {None}
    assert recipe.views_in_all == 1


def test_views_without_an_augmentation_are_refused() -> None:
    """They would be ignored, and yet stand in the prompt's facts, and so change its bytes."""
    with pytest.raises(RecipeInvalid, match="views are augmented pictures"):
        Recipe(augment="none", views=3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_recipes_facts_travel_with_the_prompt(variant: Variant) -> None:
    settings = Recipe(variant=variant, seed=7).settings()
    facts = PromptMetadata("0" * 64, "vit", 48, ("a", "b"), 2, 7, settings)

    _, read = metadata_from_json(metadata_to_json(variant, facts))

    assert Recipe(**read.settings) == Recipe(variant=variant, seed=7)  # type: ignore[arg-type]


def test_a_training_of_one_epoch_has_no_warm_up() -> None:
    recipe = Recipe(epochs=1)

    assert recipe.rate_at(0, 10) == pytest.approx(recipe.peak_rate)
