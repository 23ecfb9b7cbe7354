"""How prompts attend: each pair sees the N tokens of its image, itself, and its own memory, and nobody else.

One softmax over [N shared, 1 own, M memory] scores, and never a mask over all tokens: what a pair may not see is not
computed. A CPU attends the shared tokens and the rest one after the other, and mixes the two by the sums of their
exponentials, which is the same softmax: its fused kernel tells them, and keeps all scores in the cache.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.layout import Layout

# B images, N backbone tokens, T pairs, P pairs of one image, b images of a run, H heads, d width of a head,
# M memory tokens a block, S slots of a pool


@dataclass(frozen=True)
class Asking:
    """The pairs' own queries, keys and values in one block, each (T, H, d)."""

    q: Tensor
    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Memory:
    """The memory of the prompts in a pool of S, in one block, and which of them are the pairs' own."""

    pool_keys: Tensor  # (S, H, M, d)
    pool_values: Tensor  # (S, H, M, d)
    slots: Tensor  # (T)
    absent: Tensor | None  # (T, 1, M): -inf where a pair's prompt has none, else 0

    # Picked when they are needed: those of all blocks at once would not stay in the cache.
    def keys(self) -> Tensor:
        """Those of each pair's prompt, (T, H, M, d)."""
        return self.pool_keys.index_select(0, self.slots)

    def values(self) -> Tensor:
        """Those of each pair's prompt, (T, H, M, d)."""
        return self.pool_values.index_select(0, self.slots)


def attend(ours: Asking, shared: tuple[Tensor, Tensor], memory: Memory, layout: Layout, scale: float) -> Tensor:
    """What each pair gets, (T, H * d), from keys and values (B, H, N, d) of the images, itself, and its memory."""
    pairs, heads, d = ours.q.shape
    if not pairs:
        return ours.q.reshape(0, heads * d)
    how = attend_in_two if ours.q.device.type == "cpu" else attend_at_once
    return how(ours, shared, memory, layout, scale).view(pairs, heads * d)


def attend_in_two(ours: Asking, shared: tuple[Tensor, Tensor], memory: Memory, layout: Layout, scale: float) -> Tensor:
    """The shared tokens first, then a pair's own and its memory: (T, H, d)."""
    _, heads, d = ours.q.shape
    keys, values = shared
    parts: list[tuple[Tensor, Tensor]] = []
    for run in layout.runs:
        asked = ours.q[run.pairs].view(-1, run.each, heads, d).transpose(1, 2)  # (b, H, P, d)
        given, total = _fused(asked, keys[run.images], values[run.images], None, scale)
        parts.append((given.transpose(1, 2).flatten(0, 1), total.transpose(1, 2).flatten(0, 1)))
    seen, seen_total = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))  # (T, H, d), (T, H)

    own_keys = torch.cat([ours.k.unsqueeze(2), memory.keys()], dim=2)  # (T, H, 1 + M, d)
    own_values = torch.cat([ours.v.unsqueeze(2), memory.values()], dim=2)
    absent = None
    if memory.absent is not None:
        absent = torch.nn.functional.pad(memory.absent, (1, 0)).unsqueeze(1)  # (T, 1, 1, 1 + M): itself it always sees
    own, own_total = _fused(ours.q.unsqueeze(2), own_keys, own_values, absent, scale)
    share = torch.sigmoid(seen_total - own_total.squeeze(2)).to(seen.dtype)  # (T, H), of the shared tokens
    return torch.lerp(own.squeeze(2), seen, share.unsqueeze(-1))


def _fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Attention of q (b, H, P, d), and the logarithm of the sum of its exponentials (b, H, P)."""
    given, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, keys, values, 0.0, False, attn_mask=mask, scale=scale
    )
    return given, total


def attend_at_once(ours: Asking, shared: tuple[Tensor, Tensor], memory: Memory, layout: Layout, scale: float) -> Tensor:
    """All scores of a pair side by side, (T, H, d): few launches, on any device."""
    q = ours.q * scale
    pairs, heads, d = q.shape
    keys, values = shared
    n, m = keys.shape[2], memory.pool_keys.shape[2]

    scores = torch.empty(heads, pairs, n + 1 + m, device=q.device, dtype=q.dtype)
    for run in layout.runs:
        asked = q[run.pairs].view(-1, run.each, heads, d).permute(2, 0, 1, 3)  # (H, b, P, d)
        theirs = keys[run.images].transpose(0, 1)  # (H, b, N, d)
        scores[:, run.pairs, :n] = (asked @ theirs.transpose(-1, -2)).view(heads, -1, n)
    scores[:, :, n] = (q * ours.k).sum(-1).T
    remembered = (q.unsqueeze(-2) @ memory.keys().transpose(-1, -2)).squeeze(-2)  # (T, H, M)
    if memory.absent is not None:
        remembered += memory.absent
    scores[:, :, n + 1 :] = remembered.transpose(0, 1)

    weights = scores.softmax(-1)  # (H, T, N + 1 + M)
    mixed = (weights[:, :, n + 1 :].transpose(0, 1).unsqueeze(2) @ memory.values()).squeeze(2)  # (T, H, d)
    mixed.addcmul_(weights[:, :, n].T.unsqueeze(-1), ours.v)
    for run in layout.runs:
        given = weights[:, run.pairs, :n].view(heads, -1, run.each, n)  # (H, b, P, N)
        theirs = values[run.images].transpose(0, 1)  # (H, b, N, d)
        mixed[run.pairs] += (given @ theirs).permute(1, 2, 0, 3).reshape(-1, heads, d)
    return mixed
