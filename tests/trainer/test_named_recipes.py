"""What a task says of its training becomes a recipe, or an error that names the word."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.errors import RecipeInvalid
from trainer.named_recipes import DEFAULT, NUMBERS, RECIPES, TEXTS, WHOLE, recipe_from_settings
from trainer.recipe import Recipe

SETTINGS = st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))


def test_every_setting_but_the_seed_has_its_word() -> None:
    assert {field.name for field in fields(Recipe)} | {"recipe"} == WHOLE | NUMBERS | TEXTS | {"seed"}


def test_what_is_not_said_is_the_default() -> None:
    default = RECIPES[DEFAULT]

    assert recipe_from_settings({}, seed=7) == replace(default, seed=7)
    assert recipe_from_settings({"epochs": 3, "base_rate": 1, "variant": "shallow"}, seed=7) == replace(
        default, epochs=3, base_rate=1.0, variant="shallow", seed=7
    )


def test_the_papers_recipe_is_had_by_name_and_can_be_changed() -> None:
    assert recipe_from_settings({"recipe": "paper"}, seed=7) == Recipe(seed=7)
    assert recipe_from_settings({"recipe": "paper", "epochs": 5}, seed=7) == Recipe(epochs=5, seed=7)


def test_views_are_of_augmented_pictures_whatever_the_recipe() -> None:
    assert recipe_from_settings({"views": 4}, seed=0).augment == "randaugment"
    with pytest.raises(RecipeInvalid, match="views"):
        recipe_from_settings({"views": 4, "augment": "none"}, seed=0)


def test_who_wants_no_augmentation_need_not_say_that_there_are_no_views_of_it() -> None:
    assert recipe_from_settings({"augment": "none"}, seed=0) == replace(RECIPES[DEFAULT], augment="none", views=None)
    assert recipe_from_settings({"recipe": "paper", "augment": "none"}, seed=0).views is None


def test_a_recipe_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(RecipeInvalid, match="'quick': use paper or default"):
        recipe_from_settings({"recipe": "quick"}, seed=0)


@pytest.mark.parametrize("word", ["epochs", "base_rate", "variant"])
def test_yes_is_no_value(word: str) -> None:
    with pytest.raises(RecipeInvalid, match=word):
        recipe_from_settings({word: True}, seed=0)


@given(st.dictionaries(st.one_of(st.text(), st.sampled_from(sorted(WHOLE | NUMBERS | TEXTS))), SETTINGS))
def test_whatever_is_told_is_taken_as_it_is_or_refused(told: dict[str, str | int | float | bool]) -> None:
    try:
        recipe = recipe_from_settings(told, seed=0)
    except RecipeInvalid:
        return

    assert all(getattr(recipe, word) == value for word, value in told.items() if word != "recipe")
