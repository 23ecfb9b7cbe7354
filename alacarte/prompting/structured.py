"""Structured attention: one pass of the backbone answers every (image, prompt) pair of a batch.

All rows, B*N of the backbone and T of the prompts, share one buffer through every norm, linear layer and MLP;
only attention tells them apart. The backbone's rows never see a prompt, and no prompt sees another.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attending import Asking, Memory, attend
from alacarte.prompting.backbone import Backbone
from alacarte.prompting.layout import Layout
from alacarte.prompting.pool import PromptPool

# B images, N backbone tokens, T pairs, R rows, H heads, d width of a head, D width


@dataclass(frozen=True)
class Outcome:
    """What the pass leaves: the finished prompt tokens and the finished class tokens."""

    tokens: Tensor  # (T, D)
    embedding: Tensor  # (B, D)


Keep = Callable[[int, Tensor, Tensor], None]


@torch.inference_mode()
def forward(backbone: Backbone, images: Tensor, pool: PromptPool, layout: Layout, keep: Keep | None = None) -> Outcome:
    """Pass images (B, 3, S, S) once through the backbone, every pair of the layout riding along.

    `keep` is shown the backbone's keys and values of every block, each (B, H, N, d).
    """
    start = backbone.embed(images)  # (B, N, D)
    count, tokens, width = start.shape
    own = count * tokens  # rows of the backbone; the T rows of the pairs follow
    rows = stack([start.view(own, width), pool.tokens.index_select(0, layout.slots)])  # (R, D)
    pairs = slice(own, own + layout.pairs)

    *inner, final = backbone.frozen_blocks
    *memories, final_memory = memories_of(pool, layout)
    mixed = rows.new_zeros(len(rows), final.heads * final.head_width)  # what attention gives each row
    for index, (block, memory) in enumerate(zip(inner, memories, strict=True)):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (R, H, d)
        shared = by_image(k[:own], count), by_image(v[:own], count)  # (B, H, N, d)
        if keep is not None:
            keep(index, *shared)
        seen = F.scaled_dot_product_attention(by_image(q[:own], count), *shared, scale=block.scale)
        mixed[:own] = seen.transpose(1, 2).reshape(own, -1)
        ours = Asking(q[pairs], k[pairs], v[pairs])
        mixed[pairs] = attend(ours, shared, memory, layout, block.scale)
        rows = block.absorb(rows, mixed)

    # In the last block nobody reads the patches again: they give keys and values, and go no further.
    normal = final.normalise(rows)
    k, v = final.keys_values(normal)
    shared = by_image(k[:own], count), by_image(v[:own], count)
    if keep is not None:
        keep(len(inner), *shared)
    q = final.queries(stack([normal[:own:tokens], normal[pairs]]))  # class rows, prompt rows
    seen = F.scaled_dot_product_attention(by_image(q[:count], count), *shared, scale=final.scale)
    ours = Asking(q[count : count + layout.pairs], k[pairs], v[pairs])
    given = attend(ours, shared, final_memory, layout, final.scale)
    mixed = stack([seen.transpose(1, 2).reshape(count, -1), given])
    rows = backbone.finish(final.absorb(stack([rows[:own:tokens], rows[pairs]]), mixed))
    return Outcome(tokens=rows[count : count + layout.pairs], embedding=rows[:count])


def stack(parts: list[Tensor]) -> Tensor:
    """The parts' rows (R, D) in one buffer, and rows of zeros behind them that nobody reads.

    Kernels are made for every number of rows that they meet, and kept: so it is one that comes again.
    """
    count = sum(map(len, parts))
    step = 8 if count < 512 else 64
    return torch.cat([*parts, parts[0].new_zeros(-count % step, parts[0].shape[1])])


def by_image(rows: Tensor, images: int) -> Tensor:
    """Rows (B*n, H, d) as (B, H, n, d), without a copy."""
    return rows.view(images, -1, *rows.shape[1:]).transpose(1, 2)


def memories_of(pool: PromptPool, layout: Layout) -> list[Memory]:
    """What the prompts in the pool remember, block by block, and which of them each pair has."""
    absent = None if pool.absent is None else pool.absent.index_select(0, layout.slots)
    both = zip(pool.keys.unbind(0), pool.values.unbind(0), strict=True)
    return [Memory(keys, values, layout.slots, absent) for keys, values in both]
