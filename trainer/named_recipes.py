"""Recipes by name, and from what a task says of its training to a recipe; the registry keeps the words only."""

from collections.abc import Mapping
from dataclasses import replace
from reprlib import repr as brief
from typing import Any

from trainer.errors import RecipeInvalid
from trainer.recipe import Recipe

PAPER = "paper"
DEFAULT = "default"

# The default was chosen on pictures held out from training, never on test pictures (docs/RESULTS.md). Few views of a
# picture take turns, so that the backbone sees each of them once, and it trains in a small part of the paper's time.
RECIPES: dict[str, Recipe] = {
    PAPER: Recipe(),
    DEFAULT: Recipe(epochs=20, batch=16, base_rate=0.03, views=4),
}

WHOLE = frozenset({"memory", "epochs", "batch", "warmup_epochs", "views", "prototypes"})
NUMBERS = frozenset({"base_rate", "label_smoothing", "weight_decay", "warmup_rate", "least_rate"})
TEXTS = frozenset({"variant", "augment", "recipe"})


def recipe_from_settings(told: Mapping[str, Any], seed: int) -> Recipe:  # Any: whatever was told, right or wrong
    """The recipe of a shard with this seed: the one that is named, or the default, with what else was told changed.

    RecipeInvalid names the word that is unknown or has a wrong value.
    """
    for word, value in told.items():
        if word == "seed":
            raise RecipeInvalid("the task's recipe names a seed, but every shard has its own: leave it out")
        if word not in WHOLE | NUMBERS | TEXTS:
            known = ", ".join(sorted(WHOLE | NUMBERS | TEXTS))
            raise RecipeInvalid(f"the task's recipe says {brief(word)}, which means nothing: use {known}")
        if word in WHOLE and type(value) is not int:
            raise RecipeInvalid(f"{word} must be a whole number, not {brief(value)}")
        if word in NUMBERS and type(value) not in (int, float):
            raise RecipeInvalid(f"{word} must be a number, not {brief(value)}")
        if word in TEXTS and type(value) is not str:
            raise RecipeInvalid(f"{word} must be a text, not {brief(value)}")
    changes = {word: value for word, value in told.items() if word != "recipe"}
    if "views" in changes:
        changes.setdefault("augment", "randaugment")  # views are of augmented pictures: there is no other meaning
    elif changes.get("augment") == "none":
        changes["views"] = None
    return replace(recipe_by_name(told.get("recipe", DEFAULT)), **changes, seed=seed)


def recipe_by_name(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise RecipeInvalid(f"no recipe {brief(name)}: use {' or '.join(RECIPES)}")
    return RECIPES[name]
