"""Structured attention of one block: an image's tokens attend each other, a pair attends them, itself and its memory.

A pair's attention is one softmax over [N shared, 1 own, M memory] scores. What the paper's mask would discard is never
computed. There are two ways to compute it, with the same result:

- `attend_split`, on a CPU: attend the own and memory tokens and the shared tokens separately, and combine the two by
  their log-sum-exp, which the fused kernel returns. The shared tokens are attended by the image's rows and those of
  its pairs in one call.
- `attend_concat`, on any device: write all scores of a pair side by side, with few kernel launches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.batch_layout import BatchLayout, EqualCountRun

# B images, b images of a run, N backbone tokens, n query rows of an image, T pairs, P pairs of one image, R rows,
# H heads, d width of a head, M memory tokens a block


@dataclass(frozen=True)
class AttentionInputs:
    """Queries, keys and values of one block, each (R, H, d); the rows of pairs lie behind those of their image."""

    q: Tensor
    query_rows: int  # n, of each image: N, or 1 in the last block
    k: Tensor
    v: Tensor
    tokens: int  # N, of each image

    def image_keys_values(self, run: EqualCountRun) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the run's images, each (b, H, N, d)."""
        keys = run.view(self.k, self.tokens, 0, self.tokens)  # (b, N, H, d)
        values = run.view(self.v, self.tokens, 0, self.tokens)
        return keys.transpose(1, 2), values.transpose(1, 2)

    def pair_queries_keys_values(self, runs: Sequence[EqualCountRun]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries, keys and values of the pairs, each (T, H, d)."""
        return (
            gather_pairs(self.q, self.query_rows, runs),
            gather_pairs(self.k, self.tokens, runs),
            gather_pairs(self.v, self.tokens, runs),
        )


@dataclass(frozen=True)
class MemoryKV:
    """Keys and values of the pairs' memory in one block."""

    keys: Tensor  # (T, H, M, d)
    values: Tensor  # (T, H, M, d)
    absent: Tensor | None  # (T, 1, M): -inf where a prompt has fewer than M memory tokens, else 0


def attend(inputs: AttentionInputs, memory: MemoryKV, layout: BatchLayout, scale: float, out: Tensor) -> Tensor:
    """Return the attention output (R, H, d) of every query row; `out` of that shape may be used for it."""
    implementation = attend_split if out.device.type == "cpu" else attend_concat
    return implementation(inputs, memory, layout, scale, out)


def attend_split(inputs: AttentionInputs, memory: MemoryKV, layout: BatchLayout, scale: float, out: Tensor) -> Tensor:
    """Attend own and memory tokens first, then the shared tokens, and combine the two softmaxes."""
    rows, heads, d = out.shape
    n = inputs.query_rows
    is_single = layout.image_count == 1  # then the padding rows are computed too, and the result is not copied
    if layout.pair_count:
        own, own_lse = _attend_own(inputs, memory, layout.runs, scale)  # (T, H, 1, d), (T, H, 1)
    for run in layout.runs:
        p = run.pairs_per_image
        queries = run.view(inputs.q, n, 0, rows if is_single else n + p).transpose(1, 2)  # (b, H, n + P, d)
        attended, lse = _flash_attention(queries, *inputs.image_keys_values(run), None, scale)
        attended = attended.transpose(1, 2)  # (b, n + P, H, d)
        if p:
            pairs = slice(n, n + p)
            shape = (run.image_count, p, heads)
            # exp(own) / (exp(own) + exp(shared)): the weight of own and memory tokens in the joint softmax
            weight = (own_lse[run.pairs].view(shape) - lse.transpose(1, 2)[:, pairs]).sigmoid_()  # (b, P, H)
            attended[:, pairs].lerp_(own[run.pairs].view(*shape, d), weight.unsqueeze(-1).to(attended.dtype))
        if is_single:
            return attended[0]
        run.view(out, n, 0, n + p).copy_(attended)
    return out


def _attend_own(
    inputs: AttentionInputs, memory: MemoryKV, runs: Sequence[EqualCountRun], scale: float
) -> tuple[Tensor, Tensor]:
    """Return each pair's attention over itself and its memory, (T, H, 1, d), and its log-sum-exp, (T, H, 1)."""
    q, k, v = inputs.pair_queries_keys_values(runs)
    keys = torch.cat([k.unsqueeze(2), memory.keys], dim=2)  # (T, H, 1 + M, d)
    values = torch.cat([v.unsqueeze(2), memory.values], dim=2)
    mask = None
    if memory.absent is not None:
        mask = F.pad(memory.absent, (1, 0)).unsqueeze(1)  # (T, 1, 1, 1 + M): a pair always attends itself
    return _flash_attention(q.unsqueeze(2), keys, values, mask, scale)


def _flash_attention(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Return the attention of q (b, H, n, d), and its log-sum-exp (b, H, n)."""
    attended, lse = torch._scaled_dot_product_flash_attention_for_cpu(
        q, keys, values, 0.0, False, attn_mask=mask, scale=scale
    )
    return attended, lse


def attend_concat(inputs: AttentionInputs, memory: MemoryKV, layout: BatchLayout, scale: float, out: Tensor) -> Tensor:
    """Write the scores of a pair side by side and take one softmax."""
    n, tokens, m = inputs.query_rows, inputs.tokens, memory.keys.shape[2]
    shared = [inputs.image_keys_values(run) for run in layout.runs]
    for run, (keys, values) in zip(layout.runs, shared, strict=True):
        queries = run.view(inputs.q, n, 0, n).transpose(1, 2)  # (b, H, n, d)
        attended = F.scaled_dot_product_attention(queries, keys, values, scale=scale)
        run.view(out, n, 0, n).copy_(attended.transpose(1, 2))
    if not layout.pair_count:
        return out

    q, own_keys, own_values = inputs.pair_queries_keys_values(layout.runs)  # (T, H, d)
    q = q * scale
    pairs, heads, d = q.shape
    scores = torch.empty(heads, pairs, tokens + 1 + m, device=q.device, dtype=q.dtype)  # (H, T, N + 1 + M)
    for run, (keys, _) in zip(layout.runs, shared, strict=True):
        queries = q[run.pairs].view(run.image_count, run.pairs_per_image, heads, d).permute(2, 0, 1, 3)  # (H, b, P, d)
        scores[:, run.pairs, :tokens] = (queries @ keys.permute(1, 0, 3, 2)).view(heads, -1, tokens)
    scores[:, :, tokens] = (q * own_keys).sum(-1).T
    memory_scores = (q.unsqueeze(-2) @ memory.keys.transpose(-1, -2)).squeeze(-2)  # (T, H, M)
    if memory.absent is not None:
        memory_scores += memory.absent
    scores[:, :, tokens + 1 :] = memory_scores.transpose(0, 1)

    weights = scores.softmax(-1)  # (H, T, N + 1 + M)
    mixed = (weights[:, :, tokens + 1 :].transpose(0, 1).unsqueeze(2) @ memory.values).squeeze(2)  # (T, H, d)
    mixed.addcmul_(weights[:, :, tokens].T.unsqueeze(-1), own_values)
    for run, (_, values) in zip(layout.runs, shared, strict=True):
        shape = (heads, run.image_count, run.pairs_per_image, tokens)
        shared_weights = weights[:, run.pairs, :tokens].reshape(shape)  # (H, b, P, N)
        mixed[run.pairs] += (shared_weights @ values.transpose(0, 1)).permute(1, 2, 0, 3).reshape(-1, heads, d)
    scatter_pairs(mixed, out, n, layout.runs)
    return out


def gather_pairs(rows: Tensor, image_rows: int, runs: Sequence[EqualCountRun]) -> Tensor:
    """Return the pairs' rows (T, H, d) of rows (R, H, d), in which each image has `image_rows` rows of its own."""
    parts = [run.view(rows, image_rows, image_rows, run.pairs_per_image).reshape(-1, *rows.shape[1:]) for run in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def scatter_pairs(values: Tensor, rows: Tensor, image_rows: int, runs: Sequence[EqualCountRun]) -> None:
    """Write values (T, H, d) to the pairs' rows of rows (R, H, d)."""
    for run in runs:
        if run.pairs_per_image:
            target = run.view(rows, image_rows, image_rows, run.pairs_per_image)
            target.copy_(values[run.pairs].view(target.shape))
