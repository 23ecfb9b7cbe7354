"""The forward pass of training equals that of serving, and its gradients equal autograd through the table."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alacarte.prompting.attention.batch_layout import build_layout
from alacarte.prompting.attention.forward import forward
from alacarte.prompting.attention.masked_reference import joint_forward, structured_mask
from alacarte.prompting.attention.prompt_slots import pool_prompts
from alacarte.prompting.attention.train_forward import (
    KVBuffer,
    PromptAttention,
    compute_states,
    prompt_forward,
    state_shape,
)
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.metadata import Variant
from tests.prompting.reference import KINDS, plain_forward, small_backbone, small_images, small_prompt, token_and_memory

VARIANTS: tuple[Variant, ...] = ("deep", "deep-shared", "shallow")


def states_of(backbone: Backbone, images: Tensor, dtype: torch.dtype | None = None) -> list[Tensor]:
    """The states (L, 2, H, N, d) of each image."""
    states = torch.full((len(images), *state_shape(backbone)), torch.nan, dtype=dtype or backbone.dtype)
    compute_states(backbone, images, states)
    return list(states)


@pytest.mark.parametrize("kind", KINDS)
def test_the_training_forward_equals_the_serving_forward(kind: str, backbone_of: Callable[[str], Backbone]) -> None:
    backbone = backbone_of(kind)
    images = small_images(backbone, 3)
    states = states_of(backbone, images)
    for variant in VARIANTS:
        prompt = small_prompt(backbone, variant, seed=7)
        token, memory = token_and_memory(backbone, prompt)

        trained = prompt_forward(backbone, states, token, memory)

        pool = pool_prompts(backbone, [prompt.tensors])
        served = forward(backbone, images, pool, build_layout([(0,)] * 3, backbone.device)).tokens
        torch.testing.assert_close(trained, served, rtol=1e-5, atol=1e-5)


def test_no_memory_equals_memory_of_zero_tokens(backbone: Backbone) -> None:
    states = states_of(backbone, small_images(backbone, 2))
    token, memory = token_and_memory(backbone, small_prompt(backbone, "shallow"))

    assert torch.equal(prompt_forward(backbone, states, token, None), prompt_forward(backbone, states, token, memory))


def test_half_precision_states_change_the_token_little(backbone: Backbone) -> None:
    images = small_images(backbone, 3)
    token, memory = token_and_memory(backbone, small_prompt(backbone))

    exact = prompt_forward(backbone, states_of(backbone, images), token, memory)
    halved = prompt_forward(backbone, states_of(backbone, images, torch.float16), token, memory)

    assert halved.dtype == torch.float32
    torch.testing.assert_close(halved, exact, rtol=0, atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_compute_states_returns_the_embedding_of_serving(kind: str, backbone_of: Callable[[str], Backbone]) -> None:
    backbone = backbone_of(kind)
    images = small_images(backbone, 2)
    states = torch.full((2, *state_shape(backbone)), torch.nan)

    embedding = compute_states(backbone, images, states)

    served = forward(backbone, images, pool_prompts(backbone, []), build_layout([(), ()], backbone.device))
    assert torch.equal(embedding, served.embedding)
    assert states.isfinite().all()  # every block, keys and values, was written


@pytest.mark.parametrize("kind", ["plain", "layer scale", "registers", "pre-norm", "qk-norm", "gated mlp"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_equal_autograd_through_the_attention_table(kind: str, variant: Variant) -> None:
    backbone = small_backbone(kind, dtype=torch.float64)
    images = small_images(backbone, 2)
    prompt = small_prompt(backbone, variant, seed=3)
    assert prompt.tensors.token is not None
    token = prompt.tensors.token.double().requires_grad_()
    memory = None if prompt.tensors.memory is None else prompt.tensors.memory.double().requires_grad_()
    leaves = [token] if memory is None else [token, memory]
    every = token.new_zeros(backbone.depth, 0, backbone.width)
    if memory is not None:
        every = memory.expand(backbone.depth, -1, -1)  # what a shared memory gets from every block adds up
    towards = torch.randn(2, backbone.width, dtype=torch.float64, generator=torch.Generator().manual_seed(5))

    rows = prompt_forward(backbone, states_of(backbone, images), token, None if memory is None else every)
    ours = torch.autograd.grad((rows * towards).sum(), leaves)

    plain = torch.cat([plain_forward(backbone, image, [token], [every]).tokens for image in images])
    for gradient, expected in zip(ours, torch.autograd.grad((plain * towards).sum(), leaves), strict=True):
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-9)


def test_gradients_in_single_precision_equal_those_of_the_joint_forward(backbone: Backbone) -> None:
    images = small_images(backbone, 2)
    token, memory = (part.clone().requires_grad_() for part in token_and_memory(backbone, small_prompt(backbone)))
    mask = structured_mask(backbone.tokens, [memory.shape[1]])

    rows = prompt_forward(backbone, states_of(backbone, images), token, memory)
    ours = torch.autograd.grad(rows.square().mean(), [token, memory])

    joint = joint_forward(backbone, images, token[None], [memory], mask).tokens
    for gradient, expected in zip(ours, torch.autograd.grad(joint.square().mean(), [token, memory]), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_the_gradients_of_prompt_attention_equal_finite_differences(memory: int) -> None:
    backbone = small_backbone("one block", dtype=torch.float64)
    states = states_of(backbone, small_images(backbone, 2))
    dice = torch.Generator().manual_seed(memory)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=dice).requires_grad_()

    h, d = backbone.heads, backbone.head_width
    buffer = KVBuffer(backbone, 3, memory)  # larger than the batch, as at the end of an epoch

    def attend(q: Tensor, own: Tensor, remembered: Tensor) -> Tensor:
        out: Tensor = PromptAttention.apply(q, own, remembered, states, 0, buffer, 0.7)
        return out

    assert torch.autograd.gradcheck(attend, [draw(2, h, d), draw(2, 2, h, d), draw(2, h, memory, d)])


def test_batches_that_share_a_buffer_get_their_own_gradients(backbone: Backbone) -> None:
    """The second forward pass overwrites the buffer before the first backward pass."""
    large, small = (states_of(backbone, small_images(backbone, 3, seed)) for seed in (1, 2))
    token, memory = (part.clone().requires_grad_() for part in token_and_memory(backbone, small_prompt(backbone)))
    buffer = KVBuffer(backbone, 3, memory.shape[1])

    rows = [prompt_forward(backbone, states, token, memory, buffer) for states in (large, small[:2])]
    shared = [torch.autograd.grad(row.square().sum(), [token, memory]) for row in rows]

    for states, gradients in zip((large, small[:2]), shared, strict=True):
        alone = prompt_forward(backbone, states, token, memory)
        expected = torch.autograd.grad(alone.square().sum(), [token, memory])
        for gradient, alone_gradient in zip(gradients, expected, strict=True):
            torch.testing.assert_close(gradient, alone_gradient, rtol=1e-5, atol=1e-5)


def test_training_computes_no_gradient_of_the_backbone(backbone: Backbone) -> None:
    token, memory = (part.clone().requires_grad_() for part in token_and_memory(backbone, small_prompt(backbone)))
    states = states_of(backbone, small_images(backbone, 1))

    rows = prompt_forward(backbone, states, token, memory)
    rows.sum().backward()  # type: ignore[no-untyped-call]

    assert not any(state.requires_grad for state in states)
    assert all(parameter.grad is None for parameter in backbone.model.parameters())
