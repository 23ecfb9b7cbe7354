"""A view's pixels depend on its key only."""

import dataclasses
from pathlib import Path

import pytest
import torch

from alacarte.prompting.backbone.preprocess import Preprocessing, decode
from alacarte.prompting.errors import PictureDecodeError
from registry.datasets.dataset import LabelledPicture
from tests.trainer.pictures import Samples
from trainer.recipe import Recipe
from trainer.train import training_batches
from trainer.views import View

PREPROCESSING = Preprocessing(32, 0.9, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def test_a_view_without_a_number_is_the_picture_as_it_is_served(samples: Samples) -> None:
    served = PREPROCESSING(decode(samples[0].path.read_bytes()))

    assert torch.equal(View(samples[0]).load(PREPROCESSING), served)
    assert torch.equal(View(samples[0], None, seed=9).load(PREPROCESSING), served)


def test_the_key_of_a_served_picture_does_not_contain_the_seed(samples: Samples) -> None:
    assert View(samples[0], None, seed=1).key == View(samples[0], None, seed=2).key


def test_equal_keys_have_equal_pixels_and_other_keys_have_others(samples: Samples) -> None:
    views = [View(s, number, seed) for s in samples[:3] for number in range(4) for seed in (0, 1)]

    pixels = {view.key: view.load(PREPROCESSING) for view in views}

    assert len(pixels) == len(views)
    for view in views:
        assert torch.equal(view.load(PREPROCESSING), pixels[view.key])
    distinct = {tensor.numpy().tobytes() for tensor in pixels.values()}
    assert len(distinct) > len(views) // 2  # an operation may leave a plain picture as it is


def test_a_view_depends_on_the_bytes_and_not_on_name_label_or_path(samples: Samples, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.write_bytes(samples[0].path.read_bytes())
    other = dataclasses.replace(samples[0], label="other", name="other", path=moved)

    for number in (None, 0, 5):
        assert View(other, number).key == View(samples[0], number).key
        assert torch.equal(View(other, number).load(PREPROCESSING), View(samples[0], number).load(PREPROCESSING))


def test_a_missing_picture_is_named(tmp_path: Path) -> None:
    gone = LabelledPicture("red", "gone.png", "0" * 64, tmp_path / "gone.png")

    with pytest.raises(PictureDecodeError, match=r"gone\.png"):
        View(gone).load(PREPROCESSING)


def test_every_epoch_has_every_sample_once_in_the_epochs_view(samples: Samples) -> None:
    recipe = Recipe(epochs=5, batch=5, views=2, seed=3)

    batches = list(training_batches(samples, recipe))

    assert [len(batch) for batch in batches] == [5, 5, 2] * 5
    for epoch in range(5):
        views = [view for batch in batches[3 * epoch : 3 * epoch + 3] for view in batch]
        assert {(view.number, view.seed) for view in views} == {(epoch % 2, 3)}
        assert sorted(view.sample.digest for view in views) == sorted(sample.digest for sample in samples)


def test_every_epoch_has_its_own_order_independent_of_the_samples_order(samples: Samples) -> None:
    recipe = Recipe(epochs=3, batch=12)

    orders = [[view.sample.digest for view in batch] for batch in training_batches(samples, recipe)]

    assert len({tuple(order) for order in orders}) == 3
    turned = [[view.sample.digest for view in batch] for batch in training_batches(samples[::-1], recipe)]
    assert turned == orders


def test_removing_a_sample_keeps_the_order_of_the_others(samples: Samples) -> None:
    recipe = Recipe(epochs=2, batch=12)

    fewer = [[view.sample for view in batch] for batch in training_batches(samples[1:], recipe)]

    every = [[view.sample for view in batch] for batch in training_batches(samples, recipe)]
    assert fewer == [[sample for sample in order if sample != samples[0]] for order in every]
