"""Who attends what: an image's rows each other, and each pair the rows of its image, itself, and its own memory.

A pair's is one softmax over [N shared, 1 own, M memory] scores, and never a mask over all tokens: what a pair may not
see is not computed. A CPU attends the shared tokens and the rest one after the other, and mixes the two by the sums of
their exponentials, which is the same softmax: its fused kernel tells them, and keeps all scores in the cache. So the
shared tokens are attended by an image's rows and by those of its pairs in one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.layout import Layout, Run

# B images, b images of a run, N backbone tokens, n rows of an image that ask, T pairs, P pairs of one image, R rows,
# H heads, d width of a head, M memory tokens a block, S slots of a pool


@dataclass(frozen=True)
class Asking:
    """Queries of one block, and the keys and values that they may see, (R, H, d); pairs stand behind their image."""

    q: Tensor
    each: int  # n, the rows of each image that ask; its pairs always do
    k: Tensor
    v: Tensor
    tokens: int  # N, the rows of each image that are seen

    def asked(self, run: Run) -> Tensor:
        """The queries of the images of a run and of their pairs, (b, H, n + P, d)."""
        return run.rows(self.q, self.each, 0, self.each + run.each).transpose(1, 2)

    def shared(self, run: Run) -> tuple[Tensor, Tensor]:
        """The keys and values of the images of a run, (b, H, N, d)."""
        keys = run.rows(self.k, self.tokens, 0, self.tokens)
        values = run.rows(self.v, self.tokens, 0, self.tokens)
        return keys.transpose(1, 2), values.transpose(1, 2)

    def own(self, runs: Sequence[Run]) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of the pairs, (T, H, d)."""
        return (
            of_pairs(self.q, self.each, runs),
            of_pairs(self.k, self.tokens, runs),
            of_pairs(self.v, self.tokens, runs),
        )


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


def attend(asking: Asking, memory: Memory, layout: Layout, scale: float, given: Tensor) -> None:
    """Puts what each row gets into `given`, whose rows (R, H, d) stand as the queries do."""
    how = attend_in_two if given.device.type == "cpu" else attend_at_once
    how(asking, memory, layout, scale, given)


def attend_in_two(asking: Asking, memory: Memory, layout: Layout, scale: float, given: Tensor) -> None:
    """The shared tokens first, then a pair's own and its memory."""
    _, heads, d = given.shape
    each = asking.each
    parts: list[tuple[Tensor, Tensor]] = []
    for run in layout.runs:
        got, total = _fused(asking.asked(run), *asking.shared(run), None, scale)  # (b, H, n + P, d), (b, H, n + P)
        got, total = got.transpose(1, 2), total.transpose(1, 2)
        run.rows(given, each, 0, each).copy_(got[:, :each])
        parts.append((got[:, each:].reshape(-1, heads, d), total[:, each:].reshape(-1, heads, 1)))
    if not layout.pairs:
        return
    seen, seen_total = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))  # (T, H, d), (T, H, 1)

    q, k, v = asking.own(layout.runs)
    own_keys = torch.cat([k.unsqueeze(2), memory.keys()], dim=2)  # (T, H, 1 + M, d)
    own_values = torch.cat([v.unsqueeze(2), memory.values()], dim=2)
    absent = None
    if memory.absent is not None:
        absent = F.pad(memory.absent, (1, 0)).unsqueeze(1)  # (T, 1, 1, 1 + M): itself it always sees
    own, own_total = _fused(q.unsqueeze(2), own_keys, own_values, absent, scale)  # (T, H, 1, d), (T, H, 1)
    share = (seen_total - own_total).sigmoid_()  # (T, H, 1), of the shared tokens
    put_pairs(torch.lerp(own.view(-1, heads, d), seen, share.to(seen.dtype)), given, each, layout.runs)


def _fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Attention of q (b, H, n, d), and the logarithm of the sum of its exponentials (b, H, n)."""
    given, total = torch._scaled_dot_product_flash_attention_for_cpu(
        q, keys, values, 0.0, False, attn_mask=mask, scale=scale
    )
    return given, total


def attend_at_once(asking: Asking, memory: Memory, layout: Layout, scale: float, given: Tensor) -> None:
    """All scores of a pair side by side: few launches for each number of prompts that pictures have, on any device."""
    each, n, m = asking.each, asking.tokens, memory.pool_keys.shape[2]
    shared = [asking.shared(run) for run in layout.runs]
    for run, (keys, values) in zip(layout.runs, shared, strict=True):
        asked = run.rows(asking.q, each, 0, each).transpose(1, 2)
        seen = F.scaled_dot_product_attention(asked, keys, values, scale=scale)
        run.rows(given, each, 0, each).copy_(seen.transpose(1, 2))
    if not layout.pairs:
        return

    q, own_keys, own_values = asking.own(layout.runs)
    q = q * scale
    pairs, heads, d = q.shape
    scores = torch.empty(heads, pairs, n + 1 + m, device=q.device, dtype=q.dtype)
    for run, (keys, _) in zip(layout.runs, shared, strict=True):
        asked = q[run.pairs].view(run.count, run.each, heads, d).permute(2, 0, 1, 3)  # (H, b, P, d)
        scores[:, run.pairs, :n] = (asked @ keys.permute(1, 0, 3, 2)).view(heads, -1, n)
    scores[:, :, n] = (q * own_keys).sum(-1).T
    remembered = (q.unsqueeze(-2) @ memory.keys().transpose(-1, -2)).squeeze(-2)  # (T, H, M)
    if memory.absent is not None:
        remembered += memory.absent
    scores[:, :, n + 1 :] = remembered.transpose(0, 1)

    weights = scores.softmax(-1)  # (H, T, N + 1 + M)
    mixed = (weights[:, :, n + 1 :].transpose(0, 1).unsqueeze(2) @ memory.values()).squeeze(2)  # (T, H, d)
    mixed.addcmul_(weights[:, :, n].T.unsqueeze(-1), own_values)
    for run, (_, values) in zip(layout.runs, shared, strict=True):
        theirs = weights[:, run.pairs, :n].reshape(heads, run.count, run.each, n)  # (H, b, P, N)
        mixed[run.pairs] += (theirs @ values.transpose(0, 1)).permute(1, 2, 0, 3).reshape(-1, heads, d)
    put_pairs(mixed, given, each, layout.runs)


def of_pairs(rows: Tensor, own: int, runs: Sequence[Run]) -> Tensor:
    """The pairs' rows (T, H, d) of rows (R, H, d), where each image has so many of its own."""
    parts = [run.rows(rows, own, own, run.each).reshape(-1, *rows.shape[1:]) for run in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def put_pairs(values: Tensor, rows: Tensor, own: int, runs: Sequence[Run]) -> None:
    """Puts (T, H, d) where the pairs' rows stand in rows (R, H, d)."""
    for run in runs:
        if run.each:
            place = run.rows(rows, own, own, run.each)
            place.copy_(values[run.pairs].view(place.shape))
