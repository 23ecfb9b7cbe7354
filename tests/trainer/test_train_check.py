"""Training calls `check` before every batch, which can stop it and changes no byte."""

import pytest

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from tests.trainer.pictures import Samples
from trainer.recipe import Recipe
from trainer.train import count_steps, train_shard

RECIPE = Recipe(epochs=2, batch=5, memory=2, prototypes=3, augment="none")


class Stop(Exception):
    pass


class Countdown:
    """Counts its calls, and raises at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self._at = at
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            raise Stop


def test_check_is_called_before_every_batch_and_changes_no_byte(backbone: Backbone, samples: Samples) -> None:
    check = Countdown()

    prompt = train_shard(backbone, samples, RECIPE, 0, check=check)

    assert check.calls == count_steps(len(samples), RECIPE) == 9  # twelve samples: two epochs of three, and three
    assert prompt_to_bytes(prompt) == prompt_to_bytes(train_shard(backbone, samples, RECIPE, 0))


@pytest.mark.parametrize("at", [1, 4, 9], ids=["the first", "the second epoch's", "the prototypes' last"])
def test_an_error_of_check_stops_the_training_before_the_batch(backbone: Backbone, samples: Samples, at: int) -> None:
    check = Countdown(at)

    with pytest.raises(Stop):
        train_shard(backbone, samples, RECIPE, 0, check=check)

    assert check.calls == at
