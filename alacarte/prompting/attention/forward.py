"""Structured attention: one pass of the backbone answers every (image, prompt) pair of a batch.

All rows, N of each image and behind them those of its pairs, share one buffer through every norm, linear layer and MLP;
only attention tells them apart. The backbone's rows never see a prompt, and no prompt sees another.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.attention.attention import Asking, Memory, attend, of_pairs, put_pairs
from alacarte.prompting.attention.batch_layout import Layout, send
from alacarte.prompting.attention.prompt_slots import PromptPool
from alacarte.prompting.backbone.vit import Backbone

# B images, N backbone tokens, T pairs, R rows, H heads, d width of a head, D width

PICKED_BYTES = 4 * 2**20  # of all blocks' memory at once: as much as may stay in the cache until it is needed
ROWS_STEP = 8  # to compute more rows for nothing costs more than to make a kernel now and then


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
    _, tokens, width = start.shape
    rows = line_up(start, pool.tokens.index_select(0, layout.slots), layout)  # (R, D)

    *inner, final = backbone.frozen_blocks
    memories = memories_of(pool, layout)
    room = rows.new_zeros(len(rows), final.heads, final.head_width)
    for index, block in enumerate(inner):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (R, H, d)
        asking = Asking(q, tokens, k, v, tokens)
        if keep is not None:
            keep(index, *shared_of(asking, layout))
        rows = block.absorb(rows, attend(asking, next(memories), layout, block.scale, room).flatten(1))

    # In the last block nobody reads the patches again: they give keys and values, and go no further.
    normal = final.normalise(rows)
    k, v = final.keys_values(normal)
    last = layout.ends(tokens)
    ends = send([*last, *last[:1] * missing(len(last))], rows.device)  # class rows, behind each those of its pairs
    asking = Asking(final.queries(normal.index_select(0, ends)), 1, k, v, tokens)
    if keep is not None:
        keep(len(inner), *shared_of(asking, layout))
    given = attend(asking, next(memories), layout, final.scale, torch.zeros_like(asking.q))
    rows = backbone.finish(final.absorb(rows.index_select(0, ends), given.flatten(1))).unsqueeze(1)  # (B + T, 1, D)
    classes = [run.rows(rows, 1, 0, 1).reshape(-1, width) for run in layout.runs]
    return Outcome(tokens=of_pairs(rows, 1, layout.runs).view(-1, width), embedding=torch.cat(classes))


def line_up(start: Tensor, tokens: Tensor, layout: Layout) -> Tensor:
    """The images' rows (B, N, D), behind each those of its pairs of (T, D), and at the end some that nobody reads."""
    images, own, width = start.shape
    count = images * own + len(tokens)
    rows = start.new_zeros(count + missing(count), 1, width)
    for run in layout.runs:
        run.rows(rows, own, 0, own).copy_(start[run.images].unsqueeze(2))
    put_pairs(tokens.unsqueeze(1), rows, own, layout.runs)
    return rows.squeeze(1)


def missing(rows: int) -> int:
    """How many rows more are computed for nothing.

    Kernels are made for every number of rows that they meet, and kept: so it is one that comes again.
    """
    return -rows % ROWS_STEP


def shared_of(asking: Asking, layout: Layout) -> tuple[Tensor, Tensor]:
    """The keys and values of all images, each (B, H, N, d)."""
    parts = [asking.shared(run) for run in layout.runs]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([keys for keys, _ in parts]), torch.cat([values for _, values in parts])


def memories_of(pool: PromptPool, layout: Layout) -> Iterator[Memory]:
    """What the pairs' prompts remember, block by block."""
    absent = None if pool.absent is None else pool.absent.index_select(0, layout.slots)
    if pool.keys[:, :1].nbytes * 2 * layout.pairs <= PICKED_BYTES:
        keys, values = (every.index_select(1, layout.slots).unbind(0) for every in (pool.keys, pool.values))
        return (Memory(*both, absent) for both in zip(keys, values, strict=True))
    return (
        Memory(keys.index_select(0, layout.slots), values.index_select(0, layout.slots), absent)
        for keys, values in zip(pool.keys.unbind(0), pool.values.unbind(0), strict=True)
    )
