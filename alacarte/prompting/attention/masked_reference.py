"""The paper's equations as written: all tokens in one sequence, with a mask.

Slow and simple. `forward.py` must give the same numbers. Without the mask it is the paper's naive concatenation and its
paragon, where prompts change the backbone's states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone

# B images, N backbone tokens, P prompts, M memory tokens a block, L blocks, D width


@dataclass(frozen=True)
class JointForwardResult:
    """The prompt tokens p_L and class tokens of Z_L, after the final norm."""

    tokens: Tensor  # (B, P, D)
    embedding: Tensor  # (B, D)


def structured_mask(tokens: int, memories: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """Return the paper's attention mask: row i may attend column j; prompt p has `memories[p]` memory tokens.

    Columns are [N backbone tokens, P prompts, memory of prompt 1, memory of prompt 2, ...]. Memory attends nothing; its
    rows attend themselves only to have a finite softmax, which is not used.
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
    """Compute [Z_l, p_l] = F^l([Z_(l-1), p_(l-1), m_l]) for prompt tokens p_0 (P, D) and memories m, each (L, M_p, D).

    Without a mask every token attends every token, so prompts interfere. Differentiable.
    """
    z = backbone.embed(images)  # Z_0 (B, N, D)
    batch, n, width = z.shape
    prompts = tokens.shape[0]
    rows = torch.cat([z, tokens.expand(batch, prompts, width)], dim=1)  # [Z_0, p_0] (B, N + P, D)
    for index, block in enumerate(backbone.model.blocks):
        memory = [memory[index].expand(batch, -1, width) for memory in memories]
        rows = block(torch.cat([rows, *memory], dim=1), attn_mask=mask)[:, : n + prompts]
    rows = backbone.final_norm(rows)
    return JointForwardResult(tokens=rows[:, n:], embedding=rows[:, 0])
