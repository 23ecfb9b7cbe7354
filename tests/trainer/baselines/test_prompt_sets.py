"""Structured sets, naive concatenation and head-only ensembles."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import BackboneMismatch, CompositionInvalid
from alacarte.prompting.prompt.metadata import Variant
from tests.prompting.reference import small_backbone, small_images, small_prompt
from tests.trainer.pictures import Samples
from trainer.baselines.evaluate import accuracy, classify
from trainer.baselines.prompt_sets import JointSet, StructuredSet
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import train_prompt


@pytest.fixture
def images(backbone: Backbone) -> Tensor:
    return small_images(backbone, 3)


@pytest.mark.parametrize("variants", [["deep"], ["shallow"], ["deep", "deep-shared", "shallow"]])
def test_a_structured_set_equals_the_masked_joint_set(
    backbone: Backbone, images: Tensor, variants: Sequence[Variant]
) -> None:
    prompts = [small_prompt(backbone, seed=seed, variant=variant) for seed, variant in enumerate(variants)]

    structured = StructuredSet(backbone, prompts).member_logits(images)
    masked = JointSet(backbone, prompts, "structured").member_logits(images)

    for one, other in zip(structured.logits, masked.logits, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_full_attention_changes_the_logits_of_a_single_prompt(backbone: Backbone, images: Tensor) -> None:
    prompts = [small_prompt(backbone, seed=1)]

    structured = StructuredSet(backbone, prompts).member_logits(images).logits[0]
    naive = JointSet(backbone, prompts).member_logits(images).logits[0]

    assert (structured - naive).abs().max() > 0.01


def test_in_a_naive_concatenation_prompts_change_each_other(backbone: Backbone, images: Tensor) -> None:
    mine = small_prompt(backbone, seed=1)
    alone = JointSet(backbone, [mine]).member_logits(images).logits[0]

    beside = JointSet(backbone, [mine, small_prompt(backbone, seed=2)]).member_logits(images).logits[0]

    assert (alone - beside).abs().max() > 0.01


def test_the_order_of_a_naive_concatenation_changes_nothing(backbone: Backbone, images: Tensor) -> None:
    one, other = small_prompt(backbone, seed=1), small_prompt(backbone, seed=2, memory=3)

    there = JointSet(backbone, [one, other]).member_logits(images)
    back = JointSet(backbone, [other, one]).member_logits(images)

    torch.testing.assert_close(there.logits[0], back.logits[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(there.compose().scores, back.compose().scores, rtol=1e-4, atol=1e-4)


def test_a_prompt_of_another_backbone_is_refused(backbone: Backbone) -> None:
    other = small_backbone(seed=1)

    for kind in (StructuredSet, JointSet):
        with pytest.raises(BackboneMismatch, match="another backbone"):
            kind(other, [small_prompt(backbone, seed=1)])


def test_a_head_only_prompt_cannot_be_concatenated(backbone: Backbone) -> None:
    with pytest.raises(CompositionInvalid, match="takes no part in attention"):
        JointSet(backbone, [small_prompt(backbone, seed=1), small_prompt(backbone, seed=2, variant="head-only")])


def test_an_empty_set_cannot_be_concatenated(backbone: Backbone) -> None:
    with pytest.raises(CompositionInvalid, match="at least one"):
        JointSet(backbone, [])


@pytest.mark.parametrize("variant", ["deep", "head-only"])
def test_prompts_of_two_shards_composed_predict_all_pictures(
    backbone: Backbone, samples: Samples, variant: Variant
) -> None:
    recipe = Recipe(variant=variant, epochs=8, augment="none")
    with StateCache(backbone) as cache:
        prompts = [train_prompt(backbone, shard, recipe, cache) for shard in (samples[:6], samples[6:])]

    logits = classify(StructuredSet(backbone, prompts), samples, backbone.preprocessing)

    truths = [sample.label for sample in samples]
    assert accuracy(logits.compose("average"), truths) == 1.0
    assert accuracy(logits.compose("vote"), truths) == 1.0
