"""The forward pass with structured attention: all (image, prompt) pairs of a batch in one pass of the backbone.

The paper's [Z_l, p_l] = F^l([Z_(l-1), p_(l-1), m_l]), masked so that backbone tokens Z attend only each other, and a
prompt p attends Z, itself and its own memory m; `masked_reference.py` is the same as written in the paper. Here the
rows of Z and p share one buffer through every norm, linear layer and MLP; only attention treats them differently.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.attention.attention import AttentionInputs, MemoryKV, attend, gather_pairs, scatter_pairs
from alacarte.prompting.attention.batch_layout import BatchLayout, to_device
from alacarte.prompting.attention.prompt_slots import PromptPool
from alacarte.prompting.backbone.vit import Backbone

# B images, N backbone tokens, T pairs, R rows (B N + T and padding), H heads, d width of a head, D width, L blocks

GATHER_BYTES = 4 * 2**20  # memory of all blocks up to this size is gathered at once: it stays in the cache until used
ROW_MULTIPLE = 8  # rows are padded to a multiple of this


@dataclass(frozen=True)
class ForwardResult:
    """The prompt tokens p_L and the class tokens of Z_L, after the final norm."""

    tokens: Tensor  # (T, D)
    embedding: Tensor  # (B, D)


OnKeysValues = Callable[[int, Tensor, Tensor], None]  # index of the block, keys and values (B, H, N, d)


@torch.inference_mode()
def forward(
    backbone: Backbone,
    images: Tensor,
    pool: PromptPool,
    layout: BatchLayout,
    on_keys_values: OnKeysValues | None = None,
) -> ForwardResult:
    """Pass images (B, 3, S, S) through the backbone once, with every pair of the layout.

    `on_keys_values` receives the backbone's keys and values of every block.
    """
    z = backbone.embed(images)  # Z_0 (B, N, D)
    _, tokens, width = z.shape
    rows = build_rows(z, pool.tokens.index_select(0, layout.slots), layout)  # [Z_0, p_0] (R, D)

    *inner_blocks, last_block = backbone.frozen_blocks
    memory = memory_per_block(pool, layout)
    out = rows.new_zeros(len(rows), last_block.heads, last_block.head_width)  # (R, H, d)
    for index, block in enumerate(inner_blocks):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (R, H, d)
        inputs = AttentionInputs(q, tokens, k, v, tokens)
        if on_keys_values is not None:
            on_keys_values(index, *shared_keys_values(inputs, layout))
        attended = attend(inputs, next(memory), layout, block.scale, out)
        rows = block.finish_block(rows, attended.flatten(1))

    # Of the last block only class and prompt rows are read: the patches give keys and values only.
    normal = last_block.normalise(rows)
    k, v = last_block.keys_values(normal)  # (R, H, d)
    read = layout.class_and_pair_rows(tokens)  # B + T indices
    read_rows = to_device([*read, *read[:1] * padding_rows(len(read))], rows.device)
    inputs = AttentionInputs(last_block.queries(normal.index_select(0, read_rows)), 1, k, v, tokens)
    if on_keys_values is not None:
        on_keys_values(len(inner_blocks), *shared_keys_values(inputs, layout))
    attended = attend(inputs, next(memory), layout, last_block.scale, torch.zeros_like(inputs.q))
    rows = last_block.finish_block(rows.index_select(0, read_rows), attended.flatten(1))  # [Z_L, p_L]
    rows = backbone.final_norm(rows).unsqueeze(1)  # (B + T and padding, 1, D)
    classes = [run.view(rows, 1, 0, 1).reshape(-1, width) for run in layout.runs]
    return ForwardResult(tokens=gather_pairs(rows, 1, layout.runs).view(-1, width), embedding=torch.cat(classes))


def build_rows(z: Tensor, tokens: Tensor, layout: BatchLayout) -> Tensor:
    """Return rows (R, D): for each image its rows of z (B, N, D), then its pairs' tokens of (T, D); then padding."""
    images, image_rows, width = z.shape
    count = images * image_rows + len(tokens)
    rows = z.new_zeros(count + padding_rows(count), 1, width)
    for run in layout.runs:
        run.view(rows, image_rows, 0, image_rows).copy_(z[run.images].unsqueeze(2))
    scatter_pairs(tokens.unsqueeze(1), rows, image_rows, layout.runs)
    return rows.squeeze(1)


def padding_rows(rows: int) -> int:
    """Return the number of padding rows.

    oneDNN builds and caches a kernel for every number of rows, which costs more than a few rows too many.
    """
    return -rows % ROW_MULTIPLE


def shared_keys_values(inputs: AttentionInputs, layout: BatchLayout) -> tuple[Tensor, Tensor]:
    """Return the keys and values of all images, each (B, H, N, d)."""
    parts = [inputs.image_keys_values(run) for run in layout.runs]
    if len(parts) == 1:
        return parts[0]
    return torch.cat([keys for keys, _ in parts]), torch.cat([values for _, values in parts])


def memory_per_block(pool: PromptPool, layout: BatchLayout) -> Iterator[MemoryKV]:
    """Yield the memory m_l of the pairs' prompts, block by block."""
    absent = None if pool.absent is None else pool.absent.index_select(0, layout.slots)
    if pool.keys[:, :1].nbytes * 2 * layout.pair_count <= GATHER_BYTES:
        keys, values = (every.index_select(1, layout.slots).unbind(0) for every in (pool.keys, pool.values))
        return (MemoryKV(*both, absent) for both in zip(keys, values, strict=True))
    return (
        MemoryKV(keys.index_select(0, layout.slots), values.index_select(0, layout.slots), absent)
        for keys, values in zip(pool.keys.unbind(0), pool.values.unbind(0), strict=True)
    )
