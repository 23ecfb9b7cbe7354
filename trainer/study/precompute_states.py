"""The views that trainings look at, seen by the backbone once, on every core, before any training begins."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from trainer.state_cache import StateCache
from trainer.study.train_prompts import Training
from trainer.views import View

AT_ONCE = 64
SAID_SECONDS = 15.0  # from one line to the next


def views_of(trainings: Iterable[Training]) -> list[View]:
    """Every view that the trainings with structured attention look at more than once, each once."""
    found: dict[object, View] = {}
    for training in trainings:
        recipe = training.recipe
        is_seen_again = recipe.augment == "none" or recipe.views is not None
        if training.way != "structured" or not is_seen_again:
            continue
        numbers = {recipe.view_at(epoch) for epoch in range(recipe.views_in_all)} | {None}  # None: for the prototypes
        for sample in training.samples:
            for number in sorted(numbers, key=lambda number: -1 if number is None else number):
                view = View(sample, number, recipe.seed)
                found.setdefault(view.key, view)
    return list(found.values())


def see_first(cache: StateCache, views: Sequence[View], say: Callable[[str], None]) -> None:
    """Let the cache see these views now, rather than one training after the other; tells now and then how far it is.

    It ends when the cache is full: what more it saw would be forgotten at once.
    """
    began = said = time.monotonic()
    batches = [views[start : start + AT_ONCE] for start in range(0, len(views), AT_ONCE)]
    with closing(cache.walk(batches)) as walk:
        for number, _ in enumerate(walk, 1):
            if cache.is_full and number < len(batches):
                say(f"room for {cache.kept:,} of {len(views):,} views: others are computed each time (--cache-gb)")
                return
            now = time.monotonic()
            if now - said >= SAID_SECONDS:
                said = now
                left = (now - began) / number * (len(batches) - number)
                say(f"{min(number * AT_ONCE, len(views)):,} of {len(views):,} views seen, {left:.0f} s left")
