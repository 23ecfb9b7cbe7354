"""The learning-rate schedule of the paper: a linear warm-up, then a cosine decay."""

import math

from trainer.recipe import Recipe

PROMPT_RATE = 0.1  # the paper's base rates
HEAD_RATE = 0.5
RATE_BATCH = 256  # the batch size that base rates are given for


def base_rate(recipe: Recipe) -> float:
    """Return the rate for a batch of 256: the recipe's own, or the paper's for the variant."""
    if recipe.base_rate is not None:
        return recipe.base_rate
    return HEAD_RATE if recipe.variant == "head-only" else PROMPT_RATE


def peak_rate(recipe: Recipe) -> float:
    """Return the highest learning rate: the base rate scaled by batch / 256."""
    return base_rate(recipe) * recipe.batch / RATE_BATCH


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """Return the rate of a step: linear from `warmup_rate` to the peak, then a cosine down to `least_rate`.

    The last epoch is never a warm-up, so a training of one epoch has none.
    """
    peak = peak_rate(recipe)
    warmup_steps = min(recipe.warmup_epochs, recipe.epochs - 1) * steps_per_epoch
    if step < warmup_steps:
        return recipe.warmup_rate + (peak - recipe.warmup_rate) * step / warmup_steps
    decay_steps = recipe.epochs * steps_per_epoch - warmup_steps
    angle = math.pi * (step - warmup_steps) / max(decay_steps, 1)
    return recipe.least_rate + (peak - recipe.least_rate) * (1 + math.cos(angle)) / 2
