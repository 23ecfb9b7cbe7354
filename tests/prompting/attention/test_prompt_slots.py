"""Prompts in reused slots give the same logits as in fresh ones."""

import pytest
import torch

from alacarte.prompting.attention.logits import PromptSlot, batch_logits
from alacarte.prompting.attention.prompt_slots import PromptSlots, precompute
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.metadata import Variant
from tests.prompting.reference import small_images, small_prompt

VARIANTS: list[tuple[Variant, int]] = [("deep", 5), ("deep", 2), ("deep-shared", 4), ("shallow", 0)]


def put_prompts(slots: PromptSlots, backbone: Backbone, *memories: int) -> None:
    """Put prompts with these numbers of memory tokens into the first slots."""
    for slot, memory in enumerate(memories):
        slots.put(slot, precompute(backbone, small_prompt(backbone, memory=memory).tensors))


def test_a_prompt_leaves_nothing_behind_in_a_reused_slot(backbone: Backbone) -> None:
    slots = PromptSlots(backbone, count=2, memory=7)
    images = small_images(backbone, 2)
    for seed, (variant, memory) in enumerate(VARIANTS):
        prompt = small_prompt(backbone, variant, seed, memory)

        for slot in (0, 1):
            slots.put(slot, precompute(backbone, prompt.tensors))

        prompts = {slot: PromptSlot(slot, prompt.tensors.head_weight, prompt.tensors.head_bias) for slot in (0, 1)}
        logits, _ = batch_logits(backbone, images, slots.pool((0, 1)), [(0, 1), (1,)], prompts)
        expected, _ = Predictor(backbone, {"it": prompt}).logits(images, [("it",), ("it",)])
        for rows, alone in zip(logits, expected, strict=True):
            for row in rows.values():
                torch.testing.assert_close(row, alone["it"], rtol=0, atol=1e-5)


def test_uninitialised_memory_of_a_slot_is_never_read(backbone: Backbone) -> None:
    slots = PromptSlots(backbone, count=2, memory=6)
    with torch.inference_mode():
        for numbers in (slots._tokens, slots._keys, slots._values, slots._absent):
            numbers.fill_(torch.nan)

    put_prompts(slots, backbone, 2, 6)

    pool = slots.pool([0, 1])
    assert pool.absent is not None
    assert all(numbers.isfinite().all() for numbers in (pool.tokens, pool.keys, pool.values))
    assert pool.absent[0, 0].tolist() == [0, 0] + [-torch.inf] * 4


def test_a_pool_is_as_wide_as_the_widest_prompt_in_use(backbone: Backbone) -> None:
    slots = PromptSlots(backbone, count=3, memory=12)
    put_prompts(slots, backbone, 2, 5, 12)

    assert [slots.pool(used).keys.shape[3] for used in ([0], [1, 0], [0, 2])] == [2, 5, 12]


def test_a_prompt_moves_between_slots_unchanged_and_its_old_slot_is_cleared(backbone: Backbone) -> None:
    wide, narrow = PromptSlots(backbone, count=1, memory=12), PromptSlots(backbone, count=1, memory=5)
    ready = precompute(backbone, small_prompt(backbone).tensors)
    wide.put(0, ready)

    narrow.put(0, wide.take_out(0))

    pool, left = narrow.pool([0]), wide.pool([])
    assert ready.token is not None
    assert ready.keys_values is not None
    assert torch.equal(pool.tokens[0], ready.token)
    assert torch.equal(torch.stack([pool.keys[:, 0], pool.values[:, 0]], 1), ready.keys_values)
    assert not any(numbers.any() for numbers in (left.tokens, left.keys, left.values))


def test_a_cleared_slot_is_all_zeros_and_its_neighbour_is_untouched(backbone: Backbone) -> None:
    slots = PromptSlots(backbone, count=2, memory=5)
    put_prompts(slots, backbone, 5, 5)

    slots.clear(0)

    pool = slots.pool([1])
    assert not any(numbers.any() for numbers in (pool.tokens[0], pool.keys[:, 0], pool.values[:, 0]))
    assert all(numbers.any() for numbers in (pool.tokens[1], pool.keys[:, 1], pool.values[:, 1]))


@pytest.mark.parametrize("memory", [0, 5])
def test_bytes_each_is_the_size_of_a_slot(backbone: Backbone, memory: int) -> None:
    slots = PromptSlots(backbone, count=3, memory=memory)

    pool = slots.pool([])

    sizes = sum(numbers.nbytes for numbers in (pool.tokens, pool.keys, pool.values, slots._absent))
    assert 3 * PromptSlots.bytes_each(backbone, memory) == sizes


def test_a_pool_of_equally_wide_prompts_has_no_padding_mask(backbone: Backbone) -> None:
    slots = PromptSlots(backbone, count=2, memory=5)
    put_prompts(slots, backbone, 5, 4)

    assert slots.pool([0]).absent is None
    assert slots.pool([0, 1]).absent is not None
