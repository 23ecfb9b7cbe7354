"""A training can be stopped before any of its batches, and asking whether to go on changes no byte of it."""

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from registry.datasets.dataset import LabelledPicture
from trainer.recipe import Recipe
from trainer.train import count_steps, train_shard

RECIPE = Recipe(epochs=2, batch=5, memory=2, prototypes=3, augment="none")


class Stop(Exception):
    pass


class Countdown:
    """Raises at that call, and counts them all."""

    def __init__(self, at: int | None = None) -> None:
        self._at = at
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            raise Stop


def test_every_batch_of_every_walk_is_asked_for(backbone: Backbone, samples: tuple[LabelledPicture, ...]) -> None:
    check = Countdown()

    asked = train_shard(backbone, samples, RECIPE, 0, check=check)

    assert check.calls == count_steps(len(samples), RECIPE) == 9  # twelve samples: two epochs of three, and three
    assert prompt_to_bytes(asked) == prompt_to_bytes(train_shard(backbone, samples, RECIPE, 0))


@pytest.mark.parametrize("at", [1, 4, 9], ids=["the first", "the second epoch's", "the prototypes' last"])
def test_a_training_stops_before_that_batch(backbone: Backbone, samples: tuple[LabelledPicture, ...], at: int) -> None:
    check = Countdown(at)

    with pytest.raises(Stop):
        train_shard(backbone, samples, RECIPE, 0, check=check)

    assert check.calls == at
