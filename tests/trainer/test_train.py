"""A prompt's bytes depend on its own samples, recipe and backbone only."""

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.artifact import prompt_from_bytes, prompt_to_bytes
from alacarte.prompting.prompt.metadata import VARIANTS, Variant
from registry.datasets.dataset import LabelledPicture
from tests.prompting.reference import small_backbone
from tests.trainer.pictures import Samples
from trainer.optimize import EpochProgress
from trainer.recipe import AUGMENTATIONS, Augmentation, Recipe
from trainer.state_cache import StateCache
from trainer.train import count_steps, train_prompt, train_shard
from trainer.views import View

LARGE = 10**8
RECIPE = Recipe(epochs=3, batch=4, memory=2, prototypes=3, base_rate=1.0)
CHECKED_RECIPE = Recipe(epochs=2, batch=5, memory=2, prototypes=3, augment="none")


def train(
    backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe = RECIPE, budget: int = LARGE
) -> bytes:
    with StateCache(backbone, budget, 100) as cache:
        return prompt_to_bytes(train_prompt(backbone, samples, recipe, cache))


@pytest.fixture(scope="module")
def expected(backbone: Backbone, samples: Samples) -> bytes:
    """The bytes of a training on the samples alone."""
    return train(backbone, samples)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_the_same_samples_give_the_same_bytes(backbone: Backbone, samples: Samples, expected: bytes) -> None:
    assert train(backbone, samples) == expected


def test_the_global_random_state_changes_nothing(backbone: Backbone, samples: Samples, expected: bytes) -> None:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(random.getrandbits(32))

        assert train(backbone, samples) == expected


def test_the_order_of_storage_changes_nothing(backbone: Backbone, samples: Samples, expected: bytes) -> None:
    assert train(backbone, samples[5:] + samples[:5]) == expected
    assert train(backbone, samples[::-1]) == expected


def test_the_names_and_paths_of_the_files_change_nothing(
    backbone: Backbone, samples: Samples, expected: bytes, tmp_path: Path
) -> None:
    moved = []
    for number, sample in enumerate(reversed(samples)):
        path = tmp_path / f"moved-{number}"
        path.write_bytes(sample.path.read_bytes())
        moved.append(dataclasses.replace(sample, name=path.name, path=path))

    assert train(backbone, moved) == expected


@pytest.mark.parametrize("forgotten", [0, 7])
def test_training_without_a_forgotten_sample_equals_never_having_had_it(
    forgotten: int, backbone: Backbone, samples: Samples
) -> None:
    rest = [sample for index, sample in enumerate(samples) if index != forgotten]

    with StateCache(backbone, LARGE, 100) as cache:  # one that has seen the sample and still keeps it
        with_it = prompt_to_bytes(train_prompt(backbone, samples, RECIPE, cache))
        after = prompt_to_bytes(train_prompt(backbone, rest, RECIPE, cache))

    assert after == train(backbone, rest)
    assert after != with_it


@pytest.mark.parametrize("budget", [0, 20_000])
def test_the_size_of_the_cache_changes_nothing(
    budget: int, backbone: Backbone, samples: Samples, expected: bytes
) -> None:
    assert train(backbone, samples, budget=budget) == expected


@pytest.mark.parametrize("budget", [30_000, LARGE])
def test_another_shard_trained_before_from_the_same_cache_changes_nothing(
    budget: int, backbone: Backbone, samples: Samples
) -> None:
    first, second = samples[:7], samples[4:]  # some pictures are in both
    other = dataclasses.replace(RECIPE, seed=5, batch=3)

    with StateCache(backbone, budget, 100) as cache:
        train_prompt(backbone, first, other, cache)
        train_prompt(backbone, first, RECIPE, cache)
        beside = prompt_to_bytes(train_prompt(backbone, second, RECIPE, cache))

    assert beside == train(backbone, second)


@pytest.mark.parametrize("count", [1, 2])
def test_the_number_of_threads_changes_nothing(count: int, samples: Samples, threads: Callable[[int], None]) -> None:
    backbone = small_backbone("wide")  # wide enough for its products to be split over threads
    threads(3 - count)
    other = train(backbone, samples)
    threads(count)

    assert train(backbone, samples) == other


def test_training_uses_one_thread_and_restores_the_number_of_threads(
    backbone: Backbone, samples: Samples, threads: Callable[[int], None]
) -> None:
    threads(2)
    inside: list[int] = []

    with StateCache(backbone) as cache:
        train_prompt(backbone, samples, RECIPE, cache, lambda _: inside.append(torch.get_num_threads()))

    assert inside == [1, 1, 1]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"batch": 3},
        {"epochs": 4},
        {"memory": 3},
        {"augment": "none"},
        {"weight_decay": 0.5},
        {"label_smoothing": 0.2},
    ],
)
def test_every_setting_has_an_effect(
    change: dict[str, Any], backbone: Backbone, samples: Samples, expected: bytes
) -> None:
    other = prompt_from_bytes(train(backbone, samples, dataclasses.replace(RECIPE, **change)))

    theirs = prompt_from_bytes(expected)
    assert not torch.equal(other.tensors.head_weight, theirs.tensors.head_weight)


def test_another_label_gives_other_bytes(backbone: Backbone, samples: Samples, expected: bytes) -> None:
    relabelled = (dataclasses.replace(samples[0], label="red"), *samples[1:])

    assert train(backbone, relabelled) != expected


@pytest.mark.parametrize("budget", [0, LARGE])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_learns_and_predicts(variant: Variant, budget: int, backbone: Backbone, samples: Samples) -> None:
    recipe = Recipe(variant=variant, epochs=12, memory=2, base_rate=2.0, augment="none")
    progress: list[EpochProgress] = []

    with StateCache(backbone, budget, 12) as cache:
        prompt = train_prompt(backbone, samples, recipe, cache, progress.append)

    assert progress[-1].loss < 0.7 * progress[0].loss
    assert prompt.tensors.variant == variant
    assert prompt.metadata.labels == ("blue", "green", "red")
    assert (prompt.metadata.samples, prompt.metadata.backbone) == (12, backbone.identity)
    images = torch.stack([View(sample).load(backbone.preprocessing) for sample in samples])
    served = Predictor(backbone, {"it": prompt}).predict(images, [("it",)] * 12)
    loss = F.nll_loss(
        torch.stack([one.members[0].scores for one in served]).log(),
        torch.tensor([prompt.metadata.labels.index(sample.label) for sample in samples]),
    )
    assert loss < 0.7 * progress[0].loss  # what was learnt is there when it is served


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("variant", ["deep", "head-only"])
def test_a_backbone_of_another_precision_trains(variant: Variant, dtype: torch.dtype, samples: Samples) -> None:
    backbone = small_backbone("plain", dtype=dtype)

    prompt = prompt_from_bytes(train(backbone, samples, dataclasses.replace(RECIPE, variant=variant, base_rate=0.1)))

    assert prompt.tensors.head_weight.dtype == torch.float32


def test_a_shard_smaller_than_a_batch_trains(backbone: Backbone, samples: Samples) -> None:
    prompt = prompt_from_bytes(train(backbone, samples[:2], Recipe(epochs=2, batch=64)))

    assert prompt.metadata.labels == ("blue", "green")
    assert prompt.tensors.prototypes.shape == (2, backbone.width)


@pytest.mark.parametrize("augment", AUGMENTATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_shard_of_one_label_trains_and_predicts_it(
    variant: Variant, augment: Augmentation, backbone: Backbone, samples: Samples
) -> None:
    alike = [sample for sample in samples if sample.label == "blue"]
    recipe = dataclasses.replace(RECIPE, variant=variant, augment=augment)
    progress: list[EpochProgress] = []

    with StateCache(backbone, LARGE, 100) as cache:
        prompt = train_prompt(backbone, alike, recipe, cache, progress.append)

    assert prompt_to_bytes(prompt) == train(backbone, alike[::-1], recipe)
    assert prompt.metadata.labels == ("blue",)
    assert [one.loss for one in progress] == [0.0] * recipe.epochs
    assert not prompt.tensors.head_weight.any()
    assert not prompt.tensors.head_bias.any()
    images = torch.stack([View(sample).load(backbone.preprocessing) for sample in samples])
    for answer in Predictor(backbone, {"it": prompt}).predict(images, [("it",)] * len(samples)):
        assert (answer.labels, answer.scores.tolist()) == (("blue",), [1.0])


def test_a_single_picture_trains(backbone: Backbone, samples: Samples) -> None:
    prompt = prompt_from_bytes(train(backbone, samples[:1]))

    assert (prompt.metadata.labels, prompt.metadata.samples) == ((samples[0].label,), 1)
    assert prompt.tensors.prototypes.shape == (1, backbone.width)


def test_the_cache_is_usable_after_an_interrupted_training(
    backbone: Backbone, samples: Samples, expected: bytes
) -> None:
    with StateCache(backbone, LARGE, 100) as cache:
        with pytest.raises(KeyboardInterrupt):
            train_prompt(backbone, samples, RECIPE, cache, Mock(side_effect=KeyboardInterrupt))

        assert prompt_to_bytes(train_prompt(backbone, samples, RECIPE, cache)) == expected


def test_check_is_called_before_every_batch_and_changes_no_byte(backbone: Backbone, samples: Samples) -> None:
    check = Mock()

    prompt = train_shard(backbone, samples, CHECKED_RECIPE, 0, check=check)

    # Twelve samples: two epochs of three batches, and three batches for the prototypes.
    assert check.call_count == count_steps(len(samples), CHECKED_RECIPE) == 9
    assert prompt_to_bytes(prompt) == prompt_to_bytes(train_shard(backbone, samples, CHECKED_RECIPE, 0))


@pytest.mark.parametrize("at", [1, 4, 9], ids=["the first", "the second epoch's", "the prototypes' last"])
def test_an_error_of_check_stops_the_training_before_the_batch(backbone: Backbone, samples: Samples, at: int) -> None:
    check = Mock(side_effect=chain(repeat(None, at - 1), [InterruptedError]))

    with pytest.raises(InterruptedError):
        train_shard(backbone, samples, CHECKED_RECIPE, 0, check=check)

    assert check.call_count == at
