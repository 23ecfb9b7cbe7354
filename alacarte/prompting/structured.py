"""Structured attention: one pass of the backbone answers every (image, prompt) pair of a batch.

All rows, B*N of the backbone and T of the prompts, share one buffer through every norm, linear layer and MLP;
only attention tells them apart. The backbone's rows never see a prompt, and no prompt sees another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.backbone import Backbone, BackboneBlock
from alacarte.prompting.pool import PromptPool

# B images, N backbone tokens, T pairs, P pairs of one image, H heads, d width of a head, D width,
# M memory tokens a block


@dataclass(frozen=True)
class Run:
    """Consecutive images that have equally many pairs, and where those pairs stand."""

    images: slice
    pairs: slice
    each: int  # P, the pairs of each image


@dataclass(frozen=True)
class Layout:
    """Which pairs a batch asks for; the pairs of one image stand together, in the order of the images."""

    slots: Tensor  # (T): where in the pool each pair's prompt is
    runs: tuple[Run, ...]

    @property
    def pairs(self) -> int:
        return self.slots.shape[0]


@dataclass(frozen=True)
class Outcome:
    """What the pass leaves: the finished prompt tokens and the finished class tokens."""

    tokens: Tensor  # (T, D)
    embedding: Tensor  # (B, D)


Keep = Callable[[int, Tensor, Tensor], None]


def lay_out(sets: Sequence[Sequence[int]], device: torch.device) -> Layout:
    """The layout of a batch where image b asks for the prompts `sets[b]` of the pool."""
    # A CPU multiplies strided matrices of one image without copying them; an accelerator wants few launches.
    merge = device.type != "cpu"
    runs: list[Run] = []
    pair = 0
    for image, names in enumerate(sets):
        each = len(names)
        last = runs[-1] if runs else None
        if merge and last is not None and last.each == each:
            pairs = slice(last.pairs.start, pair + each)
            runs[-1] = Run(slice(last.images.start, image + 1), pairs, each)
        else:
            runs.append(Run(slice(image, image + 1), slice(pair, pair + each), each))
        pair += each
    slots = send([slot for names in sets for slot in names], device)
    return Layout(slots, tuple(run for run in runs if run.each))


def send(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Whole numbers as a tensor on the device, without waiting for it."""
    here = torch.tensor(numbers, dtype=torch.long)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)


@torch.inference_mode()
def forward(backbone: Backbone, images: Tensor, pool: PromptPool, layout: Layout, keep: Keep | None = None) -> Outcome:
    """Pass images (B, 3, S, S) once through the backbone, every pair of the layout riding along.

    `keep` is shown the backbone's keys and values of every block, each (B, H, N, d).
    """
    start = backbone.embed(images)  # (B, N, D)
    count, tokens, width = start.shape
    own = count * tokens  # rows of the backbone; the T rows of the pairs follow
    rows = torch.cat([start.view(own, width), pool.tokens.index_select(0, layout.slots)])  # (B*N + T, D)

    *inner, final = backbone.blocks
    for index, block in enumerate(inner):
        q, k, v = block.queries_keys_values(block.normalise(rows))  # (B*N + T, H, d)
        shared = by_image(k[:own], count), by_image(v[:own], count)  # (B, H, N, d)
        if keep is not None:
            keep(index, *shared)
        seen = F.scaled_dot_product_attention(by_image(q[:own], count), *shared, scale=block.scale)
        mixed = seen.transpose(1, 2).reshape(own, -1)  # (B*N, H * d)
        if layout.pairs:
            ours = attend(block, index, q[own:], k[own:], v[own:], shared, pool, layout)
            mixed = torch.cat([mixed, ours])
        rows = block.absorb_(rows, mixed)

    # In the last block nobody reads the patches again: they give keys and values, and go no further.
    normal = final.normalise(rows)
    k, v = final.keys_values(normal)
    shared = by_image(k[:own], count), by_image(v[:own], count)
    if keep is not None:
        keep(len(inner), *shared)
    rows = torch.cat([rows[:own:tokens], rows[own:]])  # (B + T, D): class rows, prompt rows
    q = final.queries(torch.cat([normal[:own:tokens], normal[own:]]))
    seen = F.scaled_dot_product_attention(by_image(q[:count], count), *shared, scale=final.scale)
    ours = attend(final, len(inner), q[count:], k[own:], v[own:], shared, pool, layout)
    rows = final.absorb_(rows, torch.cat([seen.transpose(1, 2).reshape(count, -1), ours]))
    rows = backbone.finish(rows)
    return Outcome(tokens=rows[count:], embedding=rows[:count])


def by_image(rows: Tensor, images: int) -> Tensor:
    """Rows (B*n, H, d) as (B, H, n, d), without a copy."""
    return rows.view(images, -1, *rows.shape[1:]).transpose(1, 2)


def attend(
    block: BackboneBlock,
    index: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    shared: tuple[Tensor, Tensor],
    pool: PromptPool,
    layout: Layout,
) -> Tensor:
    """Each pair attends the N tokens of its image, itself, and its own memory: (T, H * d).

    One softmax over [N shared, 1 own, M memory] scores, and never a mask over all tokens: what a pair
    may not see is not computed.
    """
    pairs, heads, d = q.shape
    if not pairs:
        return q.reshape(0, heads * d)
    keys, values = shared
    n, m = keys.shape[2], pool.keys.shape[3]
    memory_keys = pool.keys[index].index_select(0, layout.slots)  # (T, H, M, d)
    memory_values = pool.values[index].index_select(0, layout.slots)
    q = q * block.scale

    scores = torch.empty(heads, pairs, n + 1 + m, device=q.device, dtype=q.dtype)
    for run in layout.runs:
        asked = q[run.pairs].view(-1, run.each, heads, d).permute(2, 0, 1, 3)  # (H, b, P, d)
        theirs = keys[run.images].transpose(0, 1)  # (H, b, N, d)
        scores[:, run.pairs, :n] = (asked @ theirs.transpose(-1, -2)).view(heads, -1, n)
    scores[:, :, n] = (q * k).sum(-1).T
    remembered = (q.unsqueeze(-2) @ memory_keys.transpose(-1, -2)).squeeze(-2)  # (T, H, M)
    if pool.absent is not None:
        remembered += pool.absent.index_select(0, layout.slots)
    scores[:, :, n + 1 :] = remembered.transpose(0, 1)

    weights = scores.softmax(-1)  # (H, T, N + 1 + M)
    mixed = (weights[:, :, n + 1 :].transpose(0, 1).unsqueeze(2) @ memory_values).squeeze(2)  # (T, H, d)
    mixed.addcmul_(weights[:, :, n].T.unsqueeze(-1), v)
    for run in layout.runs:
        given = weights[:, run.pairs, :n].view(heads, -1, run.each, n)  # (H, b, P, N)
        theirs = values[run.images].transpose(0, 1)  # (H, b, N, d)
        mixed[run.pairs] += (given @ theirs).permute(1, 2, 0, 3).reshape(-1, heads, d)
    return mixed.view(pairs, heads * d)
