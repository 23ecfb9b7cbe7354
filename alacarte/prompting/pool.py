"""Prompts made ready for a backbone: everything that depends on the prompt alone, computed once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.backbone import Backbone
from alacarte.prompting.tensors import PromptTensors

# S prompts in the pool, L blocks, H heads, d width of a head, M memory tokens a block, D width


@dataclass(frozen=True)
class PromptPool:
    """Tokens, memory keys and memory values of S prompts, side by side on the backbone's device."""

    tokens: Tensor  # (S, D)
    keys: Tensor  # (L, S, H, M, d)
    values: Tensor  # (L, S, H, M, d)
    absent: Tensor | None  # (S, 1, M): -inf where a prompt has fewer than M memory tokens, else 0


def memory_keys_values(backbone: Backbone, memory: Tensor) -> Tensor:
    """Memory (L, M, D) as keys and values (L, 2, H, M, d): functions of the prompt alone."""
    both = [
        torch.stack(block.keys_values(block.normalise(layer)))  # (2, M, H, d)
        for block, layer in zip(backbone.blocks, memory, strict=True)
    ]
    return torch.stack(both).transpose(2, 3)


def pool_prompts(backbone: Backbone, prompts: Sequence[PromptTensors]) -> PromptPool:
    """A pool of prompts that have a token; one with fewer memory tokens than another is padded."""
    with torch.inference_mode():
        device, dtype = backbone.device, backbone.dtype
        depth, heads, d = backbone.depth, backbone.heads, backbone.head_width
        most = max((0 if p.memory is None else p.memory.shape[1] for p in prompts), default=0)
        tokens = torch.empty(len(prompts), backbone.width, device=device, dtype=dtype)
        keys = torch.zeros(depth, len(prompts), heads, most, d, device=device, dtype=dtype)
        values = torch.zeros_like(keys)
        absent = torch.zeros(len(prompts), 1, most, device=device, dtype=dtype)
        for slot, prompt in enumerate(prompts):
            assert prompt.token is not None, "a head-only prompt takes no part in attention"
            tokens[slot] = prompt.token
            if prompt.memory is None:
                absent[slot] = -torch.inf
                continue
            memory = prompt.memory.to(device, dtype).expand(depth, -1, -1)  # deep-shared: (1, M, D)
            count = memory.shape[1]
            keys[:, slot, :, :count], values[:, slot, :, :count] = memory_keys_values(backbone, memory).unbind(1)
            absent[slot, :, count:] = -torch.inf
        is_padded = any(p.memory is None or p.memory.shape[1] < most for p in prompts)
        return PromptPool(tokens, keys, values, absent if is_padded else None)
