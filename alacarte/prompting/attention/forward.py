"""Structured attention: one pass of the backbone answers every (image, prompt) pair of a batch.

All rows, N of each image and behind them those of its pairs, share one buffer through every norm, linear layer and MLP;
only attention tells them apart. The backbone's rows never see a prompt, and no prompt sees another.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.attention.attention import AttentionInputs, MemoryKV, attend, gather_pairs, scatter_pairs
from alacarte.prompting.attention.batch_layout import BatchLayout, to_device
from alacarte.prompting.attention.prompt_slots import PromptPool
from alacarte.prompting.backbone.vit import Backbone

# B images, N backbone tokens, T pairs, R rows, H heads, d width of a head, D width

GATHER_BYTES = 4 * 2**20  # of all blocks' memory at once: as much as may stay in the cache until it is needed
ROW_MULTIPLE = 8  # to compute more rows for nothing costs more than to make a kernel now and then


@dataclass(frozen=True)
class ForwardResult:
    """What the pass leaves: the finished prompt tokens and the finished class tokens."""

    tokens: Tensor  # (T, D)
    embedding: Tensor  # (B, D)


OnKeysValues = Callable[[int, Tensor, Tensor], None]


@torch.inference_mode()
def forward(
    backbone: Backbone, images: Tensor, pool: PromptPool, layout: BatchLayout, keep: OnKeysValues | None = None
) -> ForwardResult:
    """Pass images (B, 3, S, S) once through the backbone, every pair of the layout riding along.

    `keep` is shown the backbone's keys and values of every block, each (B, H, N, d).
    """
    start = backbone.embed(images)  # (B, N, D)
    _, tokens, width = start.shape
    rows = build_rows(start, pool.tokens.index_select(0, layout.slots), layout)  # (R, D)

    *inner, final = backbone.frozen_blocks
    memories = memory_per_block(pool, layout)
    room = rows.new_zeros(len(rows), final.heads, final.head_width)
    for index, block in enumerate(inner):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (R, H, d)
        asking = AttentionInputs(q, tokens, k, v, tokens)
        if keep is not None:
            keep(index, *shared_keys_values(asking, layout))
        rows = block.finish_block(rows, attend(asking, next(memories), layout, block.scale, room).flatten(1))

    # In the last block nobody reads the patches again: they give keys and values, and go no further.
    normal = final.normalise(rows)
    k, v = final.keys_values(normal)
    last = layout.ends(tokens)
    ends = to_device(
        [*last, *last[:1] * padding_rows(len(last))], rows.device
    )  # class rows, behind each those of its pairs
    asking = AttentionInputs(final.queries(normal.index_select(0, ends)), 1, k, v, tokens)
    if keep is not None:
        keep(len(inner), *shared_keys_values(asking, layout))
    given = attend(asking, next(memories), layout, final.scale, torch.zeros_like(asking.q))
    rows = backbone.final_norm(final.finish_block(rows.index_select(0, ends), given.flatten(1))).unsqueeze(
        1
    )  # (B + T, 1, D)
    classes = [run.rows(rows, 1, 0, 1).reshape(-1, width) for run in layout.runs]
    return ForwardResult(tokens=gather_pairs(rows, 1, layout.runs).view(-1, width), embedding=torch.cat(classes))


def build_rows(start: Tensor, tokens: Tensor, layout: BatchLayout) -> Tensor:
    """The images' rows (B, N, D), behind each those of its pairs of (T, D), and at the end some that nobody reads."""
    images, own, width = start.shape
    count = images * own + len(tokens)
    rows = start.new_zeros(count + padding_rows(count), 1, width)
    for run in layout.runs:
        run.rows(rows, own, 0, own).copy_(start[run.images].unsqueeze(2))
    scatter_pairs(tokens.unsqueeze(1), rows, own, layout.runs)
    return rows.squeeze(1)


def padding_rows(rows: int) -> int:
    """How many rows more are computed for nothing.

    Kernels are made for every number of rows that they meet, and kept: so it is one that comes again.
    """
    return -rows % ROW_MULTIPLE


def shared_keys_values(asking: AttentionInputs, layout: BatchLayout) -> tuple[Tensor, Tensor]:
    """The keys and values of all images, each (B, H, N, d)."""
    parts = [asking.shared(run) for run in layout.runs]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([keys for keys, _ in parts]), torch.cat([values for _, values in parts])


def memory_per_block(pool: PromptPool, layout: BatchLayout) -> Iterator[MemoryKV]:
    """What the pairs' prompts remember, block by block."""
    absent = None if pool.absent is None else pool.absent.index_select(0, layout.slots)
    if pool.keys[:, :1].nbytes * 2 * layout.pairs <= GATHER_BYTES:
        keys, values = (every.index_select(1, layout.slots).unbind(0) for every in (pool.keys, pool.values))
        return (MemoryKV(*both, absent) for both in zip(keys, values, strict=True))
    return (
        MemoryKV(keys.index_select(0, layout.slots), values.index_select(0, layout.slots), absent)
        for keys, values in zip(pool.keys.unbind(0), pool.values.unbind(0), strict=True)
    )
