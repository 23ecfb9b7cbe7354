"""The paper's equations written plainly: every token in one sequence, and a mask for who attends whom.

Slow and obvious. It is what structured attention must equal, what the bench compares with, and, with the mask
left out, the paper's naive concatenation and its paragon, where prompts do change the backbone's states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone

# B images, N backbone tokens, P prompts, M memory tokens a block, L blocks, D width


@dataclass(frozen=True)
class JointForwardResult:
    """The finished prompt tokens and class token of every image."""

    tokens: Tensor  # (B, P, D)
    embedding: Tensor  # (B, D)


def structured_mask(tokens: int, memories: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """The paper's attention masking table: row i may attend column j; prompt p has `memories[p]` memory tokens.

    Columns are [N backbone tokens, P prompts, memory of prompt 1, memory of prompt 2, ...]. Memory attends
    nothing; its rows may see themselves only so that their softmax, which nobody reads, exists.
    """
    prompts = len(memories)
    size = tokens + prompts + sum(memories)
    mask = torch.eye(size, dtype=torch.bool, device=device)
    mask[: tokens + prompts, :tokens] = True
    column = tokens + prompts
    for prompt, count in enumerate(memories):
        mask[tokens + prompt, column : column + count] = True
        column += count
    return mask


def joint_forward(
    backbone: Backbone, images: Tensor, tokens: Tensor, memories: Sequence[Tensor], mask: Tensor | None
) -> JointForwardResult:
    """[Z_L, p_L] = F^L ... F^1([Z_0, p_0]) for prompt tokens (P, D) and memories, each (L, M_p, D).

    Without a mask everyone attends everything, so prompts interfere. Differentiable.
    """
    start = backbone.embed(images)  # (B, N, D)
    batch, n, width = start.shape
    prompts = tokens.shape[0]
    rows = torch.cat([start, tokens.expand(batch, prompts, width)], dim=1)  # (B, N + P, D)
    for index, block in enumerate(backbone.model.blocks):
        memory = [memory[index].expand(batch, -1, width) for memory in memories]
        rows = block(torch.cat([rows, *memory], dim=1), attn_mask=mask)[:, : n + prompts]
    rows = backbone.final_norm(rows)
    return JointForwardResult(tokens=rows[:, n:], embedding=rows[:, 0])
