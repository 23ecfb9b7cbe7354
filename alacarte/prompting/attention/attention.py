"""Who attends what: an image's rows each other, and each pair the rows of its image, itself, and its own memory.

A pair's is one softmax over [N shared, 1 own, M memory] scores, and never a mask over all tokens: what a pair may not
see is not computed. A CPU attends a pair's own and the shared tokens one after the other, and mixes the two by the sums
of their exponentials, which is the same softmax: its fused kernel tells them, and keeps all scores in the cache. So the
shared tokens are attended by an image's rows and by those of its pairs in one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.batch_layout import BatchLayout, EqualCountRun

# B images, b images of a run, N backbone tokens, n rows of an image that ask, T pairs, P pairs of one image, R rows,
# H heads, d width of a head, M memory tokens a block


@dataclass(frozen=True)
class AttentionInputs:
    """Queries of one block, and the keys and values that they may see, (R, H, d); pairs stand behind their image."""

    q: Tensor
    each: int  # n, the rows of each image that ask; its pairs always do
    k: Tensor
    v: Tensor
    tokens: int  # N, the rows of each image that are seen

    def asked(self, run: EqualCountRun, count: int) -> Tensor:
        """The queries of the images of a run, `count` of each from its first row on, (b, H, count, d)."""
        return run.rows(self.q, self.each, 0, count).transpose(1, 2)

    def shared(self, run: EqualCountRun) -> tuple[Tensor, Tensor]:
        """The keys and values of the images of a run, (b, H, N, d)."""
        keys = run.rows(self.k, self.tokens, 0, self.tokens)
        values = run.rows(self.v, self.tokens, 0, self.tokens)
        return keys.transpose(1, 2), values.transpose(1, 2)

    def own(self, runs: Sequence[EqualCountRun]) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of the pairs, (T, H, d)."""
        return (
            gather_pairs(self.q, self.each, runs),
            gather_pairs(self.k, self.tokens, runs),
            gather_pairs(self.v, self.tokens, runs),
        )


@dataclass(frozen=True)
class MemoryKV:
    """What the pairs' prompts remember in one block."""

    keys: Tensor  # (T, H, M, d)
    values: Tensor  # (T, H, M, d)
    absent: Tensor | None  # (T, 1, M): -inf where a pair's prompt has none, else 0


def attend(asking: AttentionInputs, memory: MemoryKV, layout: BatchLayout, scale: float, room: Tensor) -> Tensor:
    """What each row gets, (R, H, d), in the order of the queries; `room` of that shape may be used for it."""
    how = attend_split if room.device.type == "cpu" else attend_concat
    return how(asking, memory, layout, scale, room)


def attend_split(asking: AttentionInputs, memory: MemoryKV, layout: BatchLayout, scale: float, room: Tensor) -> Tensor:
    """A pair's own and its memory first, then the shared tokens."""
    rows, heads, d = room.shape
    each = asking.each
    is_lone = layout.images == 1  # then also what nobody reads is computed, and nothing has to be put together
    if layout.pairs:
        own, own_total = _attend_own(asking, memory, layout.runs, scale)  # (T, H, 1, d), (T, H, 1)
    for run in layout.runs:
        count = rows if is_lone else each + run.each
        # (b, H, n + P, d) and (b, H, n + P), with all rows of a lone image
        got, total = _fused(asking.asked(run, count), *asking.shared(run), None, scale)
        got = got.transpose(1, 2)  # (b, n + P, H, d)
        if run.each:
            pairs = slice(each, each + run.each)
            shape = (run.count, run.each, heads)
            share = (own_total[run.pairs].view(shape) - total.transpose(1, 2)[:, pairs]).sigmoid_()  # of its own
            got[:, pairs].lerp_(own[run.pairs].view(*shape, d), share.unsqueeze(-1).to(got.dtype))
        if is_lone:
            return got[0]
        run.rows(room, each, 0, each + run.each).copy_(got)
    return room


def _attend_own(
    asking: AttentionInputs, memory: MemoryKV, runs: Sequence[EqualCountRun], scale: float
) -> tuple[Tensor, Tensor]:
    """What each pair gets of itself and its memory, (T, H, 1, d), and the logarithm of its sum, (T, H, 1)."""
    q, k, v = asking.own(runs)
    keys = torch.cat([k.unsqueeze(2), memory.keys], dim=2)  # (T, H, 1 + M, d)
    values = torch.cat([v.unsqueeze(2), memory.values], dim=2)
    absent = None
    if memory.absent is not None:
        absent = F.pad(memory.absent, (1, 0)).unsqueeze(1)  # (T, 1, 1, 1 + M): itself it always sees
    return _fused(q.unsqueeze(2), keys, values, absent, scale)


def _fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Attention of q (b, H, n, d), and the logarithm of the sum of its exponentials (b, H, n)."""
    given, total = torch._scaled_dot_product_flash_attention_for_cpu(
        q, keys, values, 0.0, False, attn_mask=mask, scale=scale
    )
    return given, total


def attend_concat(asking: AttentionInputs, memory: MemoryKV, layout: BatchLayout, scale: float, room: Tensor) -> Tensor:
    """All scores of a pair side by side: few launches for each number of prompts that pictures have, on any device."""
    each, n, m = asking.each, asking.tokens, memory.keys.shape[2]
    shared = [asking.shared(run) for run in layout.runs]
    for run, (keys, values) in zip(layout.runs, shared, strict=True):
        asked = run.rows(asking.q, each, 0, each).transpose(1, 2)
        seen = F.scaled_dot_product_attention(asked, keys, values, scale=scale)
        run.rows(room, each, 0, each).copy_(seen.transpose(1, 2))
    if not layout.pairs:
        return room

    q, own_keys, own_values = asking.own(layout.runs)
    q = q * scale
    pairs, heads, d = q.shape
    scores = torch.empty(heads, pairs, n + 1 + m, device=q.device, dtype=q.dtype)
    for run, (keys, _) in zip(layout.runs, shared, strict=True):
        asked = q[run.pairs].view(run.count, run.each, heads, d).permute(2, 0, 1, 3)  # (H, b, P, d)
        scores[:, run.pairs, :n] = (asked @ keys.permute(1, 0, 3, 2)).view(heads, -1, n)
    scores[:, :, n] = (q * own_keys).sum(-1).T
    remembered = (q.unsqueeze(-2) @ memory.keys.transpose(-1, -2)).squeeze(-2)  # (T, H, M)
    if memory.absent is not None:
        remembered += memory.absent
    scores[:, :, n + 1 :] = remembered.transpose(0, 1)

    weights = scores.softmax(-1)  # (H, T, N + 1 + M)
    mixed = (weights[:, :, n + 1 :].transpose(0, 1).unsqueeze(2) @ memory.values).squeeze(2)  # (T, H, d)
    mixed.addcmul_(weights[:, :, n].T.unsqueeze(-1), own_values)
    for run, (_, values) in zip(layout.runs, shared, strict=True):
        theirs = weights[:, run.pairs, :n].reshape(heads, run.count, run.each, n)  # (H, b, P, N)
        mixed[run.pairs] += (theirs @ values.transpose(0, 1)).permute(1, 2, 0, 3).reshape(-1, heads, d)
    scatter_pairs(mixed, room, each, layout.runs)
    return room


def gather_pairs(rows: Tensor, own: int, runs: Sequence[EqualCountRun]) -> Tensor:
    """The pairs' rows (T, H, d) of rows (R, H, d), where each image has so many of its own."""
    parts = [run.rows(rows, own, own, run.each).reshape(-1, *rows.shape[1:]) for run in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def scatter_pairs(values: Tensor, rows: Tensor, own: int, runs: Sequence[EqualCountRun]) -> None:
    """Puts (T, H, d) where the pairs' rows stand in rows (R, H, d)."""
    for run in runs:
        if run.each:
            place = run.rows(rows, own, own, run.each)
            place.copy_(values[run.pairs].view(place.shape))
