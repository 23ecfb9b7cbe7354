"""The forward pass of training: prompt rows only, over the backbone's constant keys and values (states).

The states of a picture do not depend on the prompt, so they are computed without a gradient, can be kept between
epochs, and leave one row a picture to compute and differentiate. Gives the same tokens as `forward.py`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from alacarte.prompting.attention.batch_layout import build_layout
from alacarte.prompting.attention.forward import forward
from alacarte.prompting.attention.prompt_slots import PromptPool, memory_keys_values
from alacarte.prompting.backbone.vit import Backbone

# B pictures, N backbone tokens, L blocks, M memory tokens a block, H heads, d width of a head, D width


def state_shape(backbone: Backbone) -> tuple[int, int, int, int, int]:
    """Return the shape (L, 2, H, N, d) of one picture's keys and values."""
    return backbone.depth, 2, backbone.heads, backbone.tokens, backbone.head_width


def compute_states(backbone: Backbone, images: Tensor, states: Tensor) -> Tensor:
    """Write the keys and values of images (B, 3, S, S) into states (B, L, 2, H, N, d); return embeddings (B, D)."""

    def store(index: int, keys: Tensor, values: Tensor) -> None:
        states[:, index, 0] = keys
        states[:, index, 1] = values

    no_pairs = build_layout([()] * images.shape[0], backbone.device)
    return forward(backbone, images, empty_pool(backbone), no_pairs, store).embedding.float()


def empty_pool(backbone: Backbone) -> PromptPool:
    """Return a pool without prompts."""
    none = torch.empty(backbone.depth, 0, backbone.heads, 0, backbone.head_width)
    none = none.to(backbone.device, backbone.dtype)
    return PromptPool(none.new_empty(0, backbone.width), none, none, None)


class KVBuffer:
    """Keys and values of one block for B pictures: their states, then the prompt's own and its memory's.

    Allocated once and refilled for every block and batch: so it stays in the processor's cache, and page faults of new
    memory would cost more than the arithmetic.
    """

    def __init__(self, backbone: Backbone, pictures: int, memory: int) -> None:
        _, two, heads, tokens, d = state_shape(backbone)
        shape = two, pictures, heads, tokens + 1 + memory, d
        self._buffer = torch.zeros(shape, device=backbone.device, dtype=backbone.dtype)
        self._state_views = self._buffer[:, :, :, :tokens].unbind(1)  # each (2, H, N, d)
        self.tokens = tokens
        self.pictures = pictures

    def fill(self, states: Sequence[Tensor], index: int, own: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of one block, each (B, H, N + 1 + M, d): from the pictures' states (L, 2, H, N, d),
        the prompt's own (2, B, H, d), and its memory's (2, H, M, d).
        """
        for view, picture in zip(self._state_views, states, strict=False):  # the last batch may be smaller
            view.copy_(picture[index])
        filled = self._buffer[:, : len(states)]
        filled[:, :, :, self.tokens] = own
        filled[:, :, :, self.tokens + 1 :] = memory.unsqueeze(1)
        keys, values = filled
        return keys, values


def prompt_forward(
    backbone: Backbone, states: Sequence[Tensor], token: Tensor, memory: Tensor | None, buffer: KVBuffer | None = None
) -> Tensor:
    """Return p_L (B, D) after the final norm for B pictures' states (L, 2, H, N, d), p_0 (D) and memory (L, M, D).

    Differentiable; the states must not change before the backward pass.
    """
    count = len(states)
    if memory is None:
        memory = token.new_empty(backbone.depth, 0, backbone.width)
    if buffer is None:
        buffer = KVBuffer(backbone, count, memory.shape[1])
    memories = memory_keys_values(backbone, memory)  # (L, 2, H, M, d)
    rows = token.expand(count, -1)  # (B, D)
    for index, block in enumerate(backbone.blocks):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (B, H, d)
        own = torch.stack((k, v))  # (2, B, H, d)
        attended: Tensor = PromptAttention.apply(q, own, memories[index], states, index, buffer, block.scale)
        rows = block.finish_block(rows, attended.view(count, -1))
    return backbone.final_norm(rows)


class PromptAttention(torch.autograd.Function):
    """softmax(q K^T) V over K, V = [shared, own, memory], with no gradient for the shared keys and values.

    The backward pass fills the buffer again instead of keeping every block's keys and values in single precision:
    reading them twice in half precision is a third of the memory traffic.
    """

    @staticmethod
    def forward(
        ctx: Any,  # torch gives the context no useful type
        q: Tensor,  # (B, H, d)
        own: Tensor,  # (2, B, H, d) key and value
        memory: Tensor,  # (2, H, M, d) keys and values
        states: Sequence[Tensor],
        index: int,
        buffer: KVBuffer,
        scale: float,
    ) -> Tensor:
        keys, values = buffer.fill(states, index, own, memory)
        # A row times a matrix is many times as fast as a matrix times a column.
        scores = (q * scale).unsqueeze(-2) @ keys.transpose(-1, -2)  # (B, H, 1, N + 1 + M)
        weights = scores.squeeze(-2).softmax(-1)  # (B, H, N + 1 + M)
        ctx.save_for_backward(q, own, memory, weights)
        ctx.states, ctx.index, ctx.buffer, ctx.scale = states, index, buffer, scale
        attended: Tensor = weights.unsqueeze(-2) @ values
        return attended.squeeze(-2)  # (B, H, d)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, own, memory, weights = ctx.saved_tensors
        keys, values = ctx.buffer.fill(ctx.states, ctx.index, own, memory)
        n = ctx.buffer.tokens
        (d_out,) = gradients  # (B, H, d)
        d_weights = (d_out.unsqueeze(-2) @ values.transpose(-1, -2)).squeeze(-2)  # (B, H, N + 1 + M)
        d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdim=True)) * ctx.scale
        d_q = (d_scores.unsqueeze(-2) @ keys).squeeze(-2)  # (B, H, d)
        d_keys_values = torch.stack(  # (2, B, H, 1 + M, d)
            (d_scores[..., n:, None] * q.unsqueeze(-2), weights[..., n:, None] * d_out.unsqueeze(-2))
        )
        return d_q, d_keys_values[:, :, :, 0], d_keys_values[:, :, :, 1:].sum(1), None, None, None, None
