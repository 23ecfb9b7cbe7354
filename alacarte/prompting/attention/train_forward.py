"""The forward pass of training: prompt rows alone, over states of the backbone that never change.

The backbone's keys and values are constants of a picture, so they are computed without a gradient, may be kept
between epochs, and leave one row a picture to compute and differentiate. Equal to `structured.forward`.
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
    """The shape (L, 2, H, N, d) of one picture's keys and values."""
    return backbone.depth, 2, backbone.heads, backbone.tokens, backbone.head_width


def compute_states(backbone: Backbone, images: Tensor, states: Tensor) -> Tensor:
    """Write the keys and values of images (B, 3, S, S) into states (B, L, 2, H, N, d); return embeddings (B, D)."""

    def keep(index: int, keys: Tensor, values: Tensor) -> None:
        states[:, index, 0] = keys
        states[:, index, 1] = values

    nobody = build_layout([()] * images.shape[0], backbone.device)
    return forward(backbone, images, empty_pool(backbone), nobody, keep).embedding.float()


def empty_pool(backbone: Backbone) -> PromptPool:
    """A pool without prompts."""
    none = torch.empty(backbone.depth, 0, backbone.heads, 0, backbone.head_width)
    none = none.to(backbone.device, backbone.dtype)
    return PromptPool(none.new_empty(0, backbone.width), none, none, None)


class KVBuffer:
    """Where one block of a batch is attended: the states of B pictures and, behind them, what a prompt adds.

    Made once and filled again for every block and batch: it stays in the processor's cache, and fresh pages
    would cost more than the arithmetic.
    """

    def __init__(self, backbone: Backbone, pictures: int, memory: int) -> None:
        _, two, heads, tokens, d = state_shape(backbone)
        shape = two, pictures, heads, tokens + 1 + memory, d
        self._all = torch.zeros(shape, device=backbone.device, dtype=backbone.dtype)
        self._places = self._all[:, :, :, :tokens].unbind(1)  # each (2, H, N, d)
        self.tokens = tokens
        self.pictures = pictures

    def fill(self, states: Sequence[Tensor], index: int, own: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, each (B, H, N + 1 + M, d), of one block: of the pictures' states (L, 2, H, N, d),
        the prompt's own (2, B, H, d), and its memory's (2, H, M, d).
        """
        for place, picture in zip(self._places, states, strict=False):  # the last batch may be smaller
            place.copy_(picture[index])
        room = self._all[:, : len(states)]
        room[:, :, :, self.tokens] = own
        room[:, :, :, self.tokens + 1 :] = memory.unsqueeze(1)
        keys, values = room
        return keys, values


def prompt_forward(
    backbone: Backbone, states: Sequence[Tensor], token: Tensor, memory: Tensor | None, room: KVBuffer | None = None
) -> Tensor:
    """Finished prompt tokens (B, D) for B pictures' states (L, 2, H, N, d), a token (D) and memory (L, M, D).

    Differentiable; the states must stay what they are until then.
    """
    count = len(states)
    if memory is None:
        memory = token.new_empty(backbone.depth, 0, backbone.width)
    if room is None:
        room = KVBuffer(backbone, count, memory.shape[1])
    memories = memory_keys_values(backbone, memory)  # (L, 2, H, M, d)
    rows = token.expand(count, -1)  # (B, D)
    for index, block in enumerate(backbone.blocks):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (B, H, d)
        mixed: Tensor = PromptAttention.apply(q, torch.stack((k, v)), memories[index], states, index, room, block.scale)
        rows = block.finish_block(rows, mixed.view(count, -1))
    return backbone.final_norm(rows)


class PromptAttention(torch.autograd.Function):
    """softmax(q [shared, own, memory] keys) [shared, own, memory] values, with no gradient for what is frozen.

    The backward pass fills the room again instead of keeping every block's keys and values in single precision:
    reading them twice in half precision is a third of the traffic.
    """

    @staticmethod
    def forward(
        ctx: Any,  # torch gives the context no useful type
        q: Tensor,  # (B, H, d)
        own: Tensor,  # (2, B, H, d) key and value
        memory: Tensor,  # (2, H, M, d) keys and values
        states: Sequence[Tensor],
        index: int,
        room: KVBuffer,
        scale: float,
    ) -> Tensor:
        keys, values = room.fill(states, index, own, memory)
        # A row times a matrix: many times the speed of a matrix times a column.
        scores = (q * scale).unsqueeze(-2) @ keys.transpose(-1, -2)
        weights = scores.squeeze(-2).softmax(-1)  # (B, H, N + 1 + M)
        ctx.save_for_backward(q, own, memory, weights)
        ctx.states, ctx.index, ctx.room, ctx.scale = states, index, room, scale
        mixed: Tensor = weights.unsqueeze(-2) @ values
        return mixed.squeeze(-2)  # (B, H, d)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, own, memory, weights = ctx.saved_tensors
        keys, values = ctx.room.fill(ctx.states, ctx.index, own, memory)
        n = ctx.room.tokens
        (out,) = gradients  # (B, H, d)
        to_weights = (out.unsqueeze(-2) @ values.transpose(-1, -2)).squeeze(-2)  # (B, H, N + 1 + M)
        to_scores = weights * (to_weights - (to_weights * weights).sum(-1, keepdim=True)) * ctx.scale
        to_q = (to_scores.unsqueeze(-2) @ keys).squeeze(-2)
        to_both = torch.stack(  # (2, B, H, 1 + M, d)
            (to_scores[..., n:, None] * q.unsqueeze(-2), weights[..., n:, None] * out.unsqueeze(-2))
        )
        return to_q, to_both[:, :, :, 0], to_both[:, :, :, 1:].sum(1), None, None, None, None
