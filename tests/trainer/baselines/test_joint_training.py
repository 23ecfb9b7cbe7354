"""The paragon and the straightforward training step."""

from dataclasses import replace

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone, backbone_identity
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from alacarte.prompting.prompt.metadata import Variant
from tests.trainer.pictures import Samples
from trainer.baselines.evaluate import accuracy, classify
from trainer.baselines.joint_training import train_joint
from trainer.baselines.prompt_sets import Attention, JointSet, StructuredSet
from trainer.errors import LossNotFinite, RecipeInvalid, ShardRefused
from trainer.optimize import EpochProgress
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import train_prompt

# The paper's rate is for thousands of steps; a few want a higher one.
RECIPE = Recipe(epochs=6, augment="none", base_rate=1.0)


@pytest.mark.parametrize("variant", ["deep", "deep-shared", "shallow"])
def test_the_paragon_learns(backbone: Backbone, samples: Samples, variant: Variant) -> None:
    progress: list[EpochProgress] = []

    prompt = train_joint(backbone, samples, replace(RECIPE, variant=variant), "full", progress.append)

    assert [each.epoch for each in progress] == [1, 2, 3, 4, 5, 6]
    assert progress[-1].loss < progress[0].loss / 2
    answer = classify(JointSet(backbone, [prompt]), samples, backbone.preprocessing).compose()
    assert accuracy(answer, [sample.label for sample in samples]) == 1.0
    assert prompt.metadata.settings["attention"] == "full"
    assert prompt_to_bytes(prompt)  # it is a valid prompt


def test_structured_attention_learns_the_same_the_straightforward_way(backbone: Backbone, samples: Samples) -> None:
    recipe = replace(RECIPE, augment="randaugment", views=2)
    losses: list[float] = []
    joint_losses: list[float] = []

    with StateCache(backbone) as cache:
        prompt = train_prompt(backbone, samples, recipe, cache, lambda each: losses.append(each.loss))
    joint = train_joint(backbone, samples, recipe, "structured", lambda each: joint_losses.append(each.loss))

    # Kept states are rounded to half precision, so the two are close but not equal.
    assert joint_losses == pytest.approx(losses, rel=1e-2)
    one = classify(StructuredSet(backbone, [prompt]), samples, backbone.preprocessing).logits[0]
    other = classify(StructuredSet(backbone, [joint]), samples, backbone.preprocessing).logits[0]
    torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def test_full_attention_learns_a_different_prompt(backbone: Backbone, samples: Samples) -> None:
    full = train_joint(backbone, samples, RECIPE, "full").tensors.memory
    structured = train_joint(backbone, samples, RECIPE, "structured").tensors.memory

    assert full is not None
    assert structured is not None
    assert (full - structured).abs().max() > 1e-3


@pytest.mark.parametrize("attention", ["full", "structured"])
def test_the_same_seed_gives_the_same_bytes_in_any_order_of_samples(
    backbone: Backbone, samples: Samples, attention: Attention
) -> None:
    recipe = Recipe(epochs=2, seed=3)

    one = train_joint(backbone, samples, recipe, attention)
    other = train_joint(backbone, samples[::-1], recipe, attention)
    reseeded = train_joint(backbone, samples, replace(recipe, seed=4), attention)

    assert prompt_to_bytes(one) == prompt_to_bytes(other)
    assert not torch.equal(one.tensors.head_weight, reseeded.tensors.head_weight)


def test_joint_training_does_not_change_the_backbone(backbone: Backbone, samples: Samples) -> None:
    train_joint(backbone, samples, replace(RECIPE, epochs=1), "full")

    identity = backbone_identity(backbone.model, backbone.architecture, backbone.preprocessing)
    assert identity == backbone.identity
    assert all(parameter.grad is None for parameter in backbone.model.parameters())


def test_samples_of_one_label_train_a_prompt_that_predicts_it(backbone: Backbone, samples: Samples) -> None:
    prompt = train_joint(backbone, samples[::3], RECIPE, "full")

    answer = classify(JointSet(backbone, [prompt]), samples, backbone.preprocessing).compose()
    assert answer.labels == (samples[0].label,)
    assert torch.equal(answer.scores, torch.ones(len(samples), 1))


def test_no_samples_are_refused(backbone: Backbone) -> None:
    with pytest.raises(ShardRefused, match="no pictures"):
        train_joint(backbone, [], RECIPE, "full")


def test_a_head_only_recipe_is_refused(backbone: Backbone, samples: Samples) -> None:
    with pytest.raises(RecipeInvalid, match="train it with train_prompt"):
        train_joint(backbone, samples, replace(RECIPE, variant="head-only"), "full")


def test_a_loss_that_is_not_finite_ends_the_training(backbone: Backbone, samples: Samples) -> None:
    reported: list[EpochProgress] = []

    with pytest.raises(LossNotFinite, match="use a lower rate"):
        train_joint(backbone, samples, replace(RECIPE, base_rate=1e38), "full", reported.append)

    assert len(reported) < RECIPE.epochs
