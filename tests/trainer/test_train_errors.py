"""Progress reports of training, and its errors."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import PromptingError
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.datasets.dataset import LabelledPicture
from tests.prompting.reference import small_backbone
from tests.trainer.pictures import Samples
from trainer.errors import LossNotFinite, ShardRefused, TrainingError
from trainer.optimize import EpochProgress
from trainer.recipe import Recipe
from trainer.schedule import learning_rate
from trainer.state_cache import StateCache
from trainer.train import train_prompt

RECIPE = Recipe(epochs=3, batch=4, memory=2, prototypes=3, base_rate=1.0)


def train(backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe = RECIPE) -> TrainedPrompt:
    with StateCache(backbone) as cache:
        return train_prompt(backbone, samples, recipe, cache)


def test_progress_is_reported_once_an_epoch(backbone: Backbone, samples: Samples) -> None:
    reports: list[EpochProgress] = []
    recipe = dataclasses.replace(RECIPE, epochs=4, batch=5)

    with StateCache(backbone) as cache:
        train_prompt(backbone, samples, recipe, cache, reports.append)

    assert [(one.epoch, one.epochs) for one in reports] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [one.rate for one in reports] == [learning_rate(recipe, step, 3) for step in (2, 5, 8, 11)]
    assert all(0 < one.loss < 10 for one in reports)


def test_a_loss_is_the_mean_over_its_epochs_samples(backbone: Backbone, samples: Samples) -> None:
    reports: list[EpochProgress] = []
    still = Recipe(epochs=3, batch=5, base_rate=0, warmup_rate=0, least_rate=0)  # batches of 5, 5 and 2

    with StateCache(backbone) as cache:
        train_prompt(backbone, samples, still, cache, reports.append)

    # A new head knows nothing of three labels, and without a rate it learns nothing.
    assert [one.loss for one in reports] == pytest.approx([math.log(3)] * 3, abs=1e-6)


def test_a_shard_without_samples_is_refused(backbone: Backbone) -> None:
    with pytest.raises(ShardRefused, match="no pictures"):
        train(backbone, [])


def test_a_shard_that_has_a_picture_twice_is_refused(backbone: Backbone, samples: Samples) -> None:
    twice = dataclasses.replace(samples[0], label="another", name="copy.png")

    with pytest.raises(ShardRefused, match="a picture twice"):
        train(backbone, [*samples, twice])


def test_a_picture_that_has_changed_since_it_was_read_ends_the_training(
    backbone: Backbone, samples: Samples, tmp_path: Path
) -> None:
    path = tmp_path / "changed.png"
    path.write_bytes(samples[1].path.read_bytes())

    with pytest.raises(PromptingError, match=r"changed\.png has changed"):
        train(backbone, [dataclasses.replace(samples[0], path=path), *samples[1:]])


def test_the_training_precision_is_in_the_metadata(samples: Samples) -> None:
    """The same samples give other bytes in another precision; the metadata shows why."""
    settings = [
        train(small_backbone("plain", dtype=dtype), samples, dataclasses.replace(RECIPE, epochs=1)).metadata.settings
        for dtype in (torch.float32, torch.bfloat16)
    ]

    assert [(own["precision"], own["device"]) for own in settings] == [("float32", "cpu"), ("bfloat16", "cpu")]


def test_a_rate_that_is_far_too_high_raises_loss_not_finite(backbone: Backbone, samples: Samples) -> None:
    with pytest.raises(LossNotFinite, match="use a lower rate"):
        train(backbone, samples, dataclasses.replace(RECIPE, base_rate=1e36))


def test_parameters_that_are_not_finite_after_the_last_step_are_refused(
    backbone: Backbone, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later loss would show it: that of the last step is finite, and its gradient is not."""
    true = F.cross_entropy

    def steep(logits: Tensor, target: Tensor, **options: float) -> Tensor:
        loss = true(logits, target, **options)  # type: ignore[arg-type]  # as they come
        loss.register_hook(lambda gradient: gradient * torch.nan)  # type: ignore[no-untyped-call]
        return loss

    monkeypatch.setattr(F, "cross_entropy", steep)

    with pytest.raises(LossNotFinite), StateCache(backbone) as cache:
        train_prompt(backbone, samples, Recipe(epochs=1, batch=12), cache)


def test_a_loss_that_is_not_finite_ends_the_training_in_its_epoch(
    backbone: Backbone, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[EpochProgress] = []
    true = F.cross_entropy
    losses = iter([1.0, 1.0, 1.0, 1.0, torch.nan, 1.0])  # the fifth step is in the second epoch of three steps
    monkeypatch.setattr(F, "cross_entropy", lambda *given, **options: true(*given, **options) * next(losses))

    with pytest.raises(LossNotFinite, match="epoch 2 is nan"), StateCache(backbone) as cache:
        train_prompt(backbone, samples, RECIPE, cache, reports.append)

    assert len(reports) == 1


def test_a_picture_that_vanishes_is_named(backbone: Backbone, samples: Samples, tmp_path: Path) -> None:
    gone = LabelledPicture("red", "gone.png", "0" * 64, tmp_path / "gone.png")

    with pytest.raises((PromptingError, TrainingError), match=r"gone\.png"):
        train(backbone, [*samples, gone])
