"""The default recipe is the paper's, and settings that training cannot use are refused with their name."""

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte.prompting.prompt.metadata import VARIANTS, PromptMetadata, Variant, metadata_from_json, metadata_to_json
from trainer.errors import RecipeInvalid
from trainer.recipe import DEFAULT, RECIPES, TASK_SETTINGS, Recipe, recipe_from_settings

VALUES = st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))


def test_the_defaults_are_the_papers() -> None:
    recipe = Recipe()

    assert (recipe.epochs, recipe.batch, recipe.weight_decay, recipe.warmup_epochs) == (80, 8, 0.02, 1)
    assert (recipe.variant, recipe.memory, recipe.prototypes) == ("deep", 5, 20)
    assert recipe.augment == "randaugment"


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
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_a_setting_that_training_cannot_use_is_refused_by_name(setting: str, value: Any) -> None:
    named = str(value) if isinstance(value, str) else setting
    with pytest.raises(RecipeInvalid, match=named):
        Recipe(**{setting: value})


@pytest.mark.parametrize("setting", ["base_rate", "weight_decay", "warmup_rate", "least_rate"])
def test_equal_recipes_have_the_same_metadata(setting: str) -> None:
    """A database may return 1.0 as 1, and the prompt must be the same bytes."""
    whole, real = (Recipe(**{setting: value}) for value in (1, 1.0))  # type: ignore[arg-type]

    assert whole == real
    assert json.dumps(whole.settings()) == json.dumps(real.settings())
    assert json.dumps(Recipe(label_smoothing=0).settings()) == json.dumps(Recipe().settings())


@pytest.mark.parametrize(
    ("recipe", "views", "count"),
    [
        (Recipe(epochs=5, views=2), [0, 1, 0, 1, 0], 2),
        (Recipe(epochs=4), [0, 1, 2, 3], 4),
        (Recipe(epochs=3, views=7), [0, 1, 2], 3),
        (Recipe(augment="none"), [None] * 80, 1),
    ],
    ids=["in turn", "one for each epoch by default", "more than epochs", "the picture as it is served"],
)
def test_every_epoch_has_a_view(recipe: Recipe, views: list[int | None], count: int) -> None:
    assert [recipe.view_at(epoch) for epoch in range(recipe.epochs)] == views
    assert recipe.view_count == count


def test_views_without_an_augmentation_are_refused() -> None:
    """They would have no effect, yet change the metadata and so the prompt's bytes."""
    with pytest.raises(RecipeInvalid, match="views are augmented pictures"):
        Recipe(augment="none", views=3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_recipe_can_be_read_from_a_prompts_metadata(variant: Variant) -> None:
    settings = Recipe(variant=variant, seed=7).settings()
    metadata = PromptMetadata("0" * 64, "vit", 48, ("a", "b"), 2, 7, settings)

    _, read = metadata_from_json(metadata_to_json(variant, metadata))

    assert Recipe(**read.settings) == Recipe(variant=variant, seed=7)  # type: ignore[arg-type]


def test_a_task_can_set_everything_but_the_seed() -> None:
    assert {field.name for field in fields(Recipe)} | {"recipe"} == TASK_SETTINGS | {"seed"}


def test_settings_that_a_task_leaves_out_are_the_default_recipes() -> None:
    default = RECIPES[DEFAULT]

    assert recipe_from_settings({}, seed=7) == replace(default, seed=7)
    assert recipe_from_settings({"epochs": 3, "base_rate": 1, "variant": "shallow"}, seed=7) == replace(
        default, epochs=3, base_rate=1.0, variant="shallow", seed=7
    )


def test_the_papers_recipe_has_a_name_and_can_be_overridden() -> None:
    assert recipe_from_settings({"recipe": "paper"}, seed=7) == Recipe(seed=7)
    assert recipe_from_settings({"recipe": "paper", "epochs": 5}, seed=7) == Recipe(epochs=5, seed=7)


def test_views_imply_augmentation() -> None:
    assert recipe_from_settings({"views": 4}, seed=0).augment == "randaugment"
    with pytest.raises(RecipeInvalid, match="views"):
        recipe_from_settings({"views": 4, "augment": "none"}, seed=0)


def test_no_augmentation_implies_no_views() -> None:
    assert recipe_from_settings({"augment": "none"}, seed=0) == replace(RECIPES[DEFAULT], augment="none", views=None)
    assert recipe_from_settings({"recipe": "paper", "augment": "none"}, seed=0).views is None


def test_an_unknown_recipe_is_refused_with_the_known_names() -> None:
    with pytest.raises(RecipeInvalid, match="'quick': use paper or default"):
        recipe_from_settings({"recipe": "quick"}, seed=0)


@pytest.mark.parametrize("name", ["epochs", "base_rate", "variant"])
def test_a_boolean_is_refused(name: str) -> None:
    with pytest.raises(RecipeInvalid, match=name):
        recipe_from_settings({name: True}, seed=0)


@given(st.dictionaries(st.one_of(st.text(), st.sampled_from(sorted(TASK_SETTINGS))), VALUES))
def test_every_setting_is_applied_or_refused(settings: dict[str, str | int | float | bool]) -> None:
    try:
        recipe = recipe_from_settings(settings, seed=0)
    except RecipeInvalid:
        return

    assert all(getattr(recipe, name) == value for name, value in settings.items() if name != "recipe")
