"""Properties of parameter averaging."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.prompt.artifact import prompt_from_bytes, prompt_to_bytes
from alacarte.prompting.prompt.metadata import Variant
from tests.prompting.reference import small_images, small_prompt
from trainer.baselines.parameter_average import average_prompts
from trainer.baselines.prompt_sets import StructuredSet

VARIANTS: list[Variant] = ["deep", "deep-shared", "shallow", "head-only"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_average_of_one_prompt_is_itself(backbone: Backbone, variant: Variant) -> None:
    prompt = small_prompt(backbone, seed=1, variant=variant)

    assert prompt_to_bytes(average_prompts([prompt])) == prompt_to_bytes(prompt)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_average_is_a_valid_prompt(backbone: Backbone, variant: Variant) -> None:
    average = average_prompts([small_prompt(backbone, variant, seed=1), small_prompt(backbone, variant, seed=2)])

    read = prompt_from_bytes(prompt_to_bytes(average))

    assert read.metadata == average.metadata
    assert read.metadata.samples == 9 + 9
    assert read.metadata.settings == {"averaged": 2}
    assert read.tensors.prototypes.shape[0] == 4 + 4


def test_settings_that_prompts_agree_on_are_kept(backbone: Backbone) -> None:
    prompts = [
        replace(prompt, metadata=replace(prompt.metadata, settings={"epochs": 6, "seed": prompt.metadata.seed}))
        for prompt in (small_prompt(backbone, seed=1), small_prompt(backbone, seed=2))
    ]

    assert average_prompts(prompts).metadata.settings == {"epochs": 6, "averaged": 2}


def test_tokens_memories_and_heads_are_averaged(backbone: Backbone) -> None:
    one, other = small_prompt(backbone, seed=1), small_prompt(backbone, seed=2)

    average = average_prompts([one, other]).tensors

    for name in ("token", "memory", "head_weight", "head_bias"):
        expected = (getattr(one.tensors, name) + getattr(other.tensors, name)) / 2
        torch.testing.assert_close(getattr(average, name), expected)


def test_a_label_is_averaged_over_the_prompts_that_have_it(backbone: Backbone) -> None:
    one = small_prompt(backbone, seed=1, labels=("blue", "red"))
    other = small_prompt(backbone, seed=2, labels=("green", "red"))

    average = average_prompts([one, other])

    assert average.metadata.labels == ("blue", "green", "red")
    blue, green, red = average.tensors.head_weight
    torch.testing.assert_close(blue, one.tensors.head_weight[0])
    torch.testing.assert_close(green, other.tensors.head_weight[0])
    torch.testing.assert_close(red, (one.tensors.head_weight[1] + other.tensors.head_weight[1]) / 2)
    assert average.tensors.head_bias[1] == other.tensors.head_bias[0]


@given(seeds=st.lists(st.integers(0, 50), min_size=2, max_size=5), order=st.randoms(use_true_random=False))
def test_the_order_of_prompts_does_not_change_the_average(
    backbone: Backbone, seeds: list[int], order: random.Random
) -> None:
    prompts = [small_prompt(backbone, seed=seed, labels=(f"label {seed % 3}", "red")) for seed in seeds]
    shuffled = sorted(prompts, key=lambda _: order.random())

    there, back = average_prompts(prompts), average_prompts(shuffled)

    assert there.metadata == back.metadata
    for name in ("token", "memory", "head_weight", "head_bias"):
        torch.testing.assert_close(getattr(there.tensors, name), getattr(back.tensors, name))


def test_the_average_of_copies_predicts_as_the_prompt(backbone: Backbone) -> None:
    images = small_images(backbone, 2)
    prompt = small_prompt(backbone, seed=1)

    alone = StructuredSet(backbone, [prompt]).member_logits(images)
    averaged = StructuredSet(backbone, [average_prompts([prompt] * 3)]).member_logits(images)

    torch.testing.assert_close(averaged.logits[0], alone.logits[0], rtol=1e-4, atol=1e-4)


def test_prompts_of_different_kinds_cannot_be_averaged(backbone: Backbone) -> None:
    for other in (small_prompt(backbone, seed=2, variant="shallow"), small_prompt(backbone, seed=2, memory=4)):
        with pytest.raises(CompositionInvalid, match="train them alike"):
            average_prompts([small_prompt(backbone, seed=1), other])


def test_an_empty_set_cannot_be_averaged() -> None:
    with pytest.raises(CompositionInvalid, match="at least one"):
        average_prompts([])
