"""From what a task says of its training to a recipe; the registry keeps the words, and here they get their meaning."""

from collections.abc import Mapping
from reprlib import repr as brief
from typing import Any

from trainer.errors import RecipeInvalid
from trainer.recipe import Recipe

WHOLE = frozenset({"memory", "epochs", "batch", "warmup_epochs", "views", "prototypes"})
NUMBERS = frozenset({"base_rate", "weight_decay", "warmup_rate", "least_rate"})
TEXTS = frozenset({"variant", "augment"})


def recipe_of(told: Mapping[str, Any], seed: int) -> Recipe:  # Any: whatever was told, right or wrong
    """The recipe of a shard with this seed; RecipeInvalid names the word that is unknown or has a wrong value."""
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
    return Recipe(**told, seed=seed)
