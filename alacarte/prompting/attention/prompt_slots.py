"""Prompts precomputed for a backbone, and the slots on its device that hold them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.tensors import PromptTensors

# S slots, L blocks, H heads, d width of a head, M memory tokens a block, D width, C labels


@dataclass(frozen=True)
class PromptPool:
    """Tokens, memory keys and memory values of S prompts, side by side on the backbone's device."""

    tokens: Tensor  # (S, D)
    keys: Tensor  # (L, S, H, M, d)
    values: Tensor  # (L, S, H, M, d)
    absent: Tensor | None  # (S, 1, M): -inf where a prompt has fewer than M memory tokens, else 0


@dataclass(frozen=True)
class AttentionState:
    """What attention reads of a prompt, on the backbone's device."""

    token: Tensor | None  # (D), none for head-only
    keys_values: Tensor | None  # (L, 2, H, M, d), none for shallow and head-only

    @property
    def memory(self) -> int:
        """The number of memory tokens a block."""
        return 0 if self.keys_values is None else self.keys_values.shape[3]


@dataclass(frozen=True)
class PrecomputedPrompt(AttentionState):
    """All that the forward pass and the head read of a prompt."""

    head_weight: Tensor  # (C, D)
    head_bias: Tensor  # (C)


def memory_keys_values(backbone: Backbone, memory: Tensor) -> Tensor:
    """Project memory (L, M, D) to keys and values (L, 2, H, M, d), which depend on the prompt alone."""
    both = [
        torch.stack(block.keys_values(block.normalise(layer)))  # (2, M, H, d)
        for block, layer in zip(backbone.blocks, memory, strict=True)
    ]
    return torch.stack(both).transpose(2, 3)


@torch.inference_mode()
def precompute(backbone: Backbone, prompt: PromptTensors) -> PrecomputedPrompt:
    """Compute, once for all passes, what depends on the prompt and the backbone alone."""
    device, dtype = backbone.device, backbone.dtype
    keys_values = None
    if prompt.memory is not None:
        memory = prompt.memory.to(device, dtype).expand(backbone.depth, -1, -1)  # deep-shared: (1, M, D)
        keys_values = memory_keys_values(backbone, memory)
    token = None if prompt.token is None else prompt.token.to(device, dtype)
    return PrecomputedPrompt(token, keys_values, prompt.head_weight.to(device), prompt.head_bias.to(device))


class PromptSlots:
    """Preallocated slots for `count` prompts of up to `memory` memory tokens a block."""

    @torch.inference_mode()
    def __init__(self, backbone: Backbone, count: int, memory: int) -> None:
        depth, heads, d = backbone.depth, backbone.heads, backbone.head_width
        self.count, self.memory = count, memory
        # Not initialised: an empty slot is never read, and untouched pages take no memory.
        self._tokens = torch.empty(count, backbone.width, device=backbone.device, dtype=backbone.dtype)
        self._keys = self._tokens.new_empty(depth, count, heads, memory, d)
        self._values = torch.empty_like(self._keys)
        self._absent = self._tokens.new_empty(count, 1, memory)
        self._memory_counts = [0] * count  # memory tokens of the prompt in each slot

    @staticmethod
    def bytes_each(backbone: Backbone, memory: int) -> int:
        """Return the bytes on the device of one slot with this many memory tokens."""
        keys_values = 2 * backbone.depth * backbone.heads * backbone.head_width * memory
        return (backbone.width + keys_values + memory) * backbone.dtype.itemsize

    @torch.inference_mode()
    def put(self, slot: int, prompt: AttentionState) -> None:
        """Write the prompt to the slot and overwrite everything that was in it."""
        assert prompt.token is not None, "a head-only prompt takes no part in attention"
        count = prompt.memory
        self._tokens[slot] = prompt.token
        if prompt.keys_values is not None:
            self._keys[:, slot, :, :count], self._values[:, slot, :, :count] = prompt.keys_values.unbind(1)
        # The attention weights of absent memory are 0, but 0 times infinity is not 0.
        self._keys[:, slot, :, count:] = 0
        self._values[:, slot, :, count:] = 0
        self._absent[slot, :, :count] = 0
        self._absent[slot, :, count:] = -torch.inf
        self._memory_counts[slot] = count

    @torch.inference_mode()
    def take_out(self, slot: int) -> AttentionState:
        """Return the prompt in the slot, and clear the slot."""
        count = self._memory_counts[slot]
        keys_values = torch.stack(
            [self._keys[:, slot, :, :count], self._values[:, slot, :, :count]], dim=1
        )  # (L, 2, H, M, d)
        state = AttentionState(self._tokens[slot].clone(), keys_values)
        self.clear(slot)
        return state

    @torch.inference_mode()
    def clear(self, slot: int) -> None:
        """Overwrite the slot with zeros."""
        self._tokens[slot] = 0
        self._keys[:, slot] = 0
        self._values[:, slot] = 0
        self._memory_counts[slot] = 0

    @property
    def widest(self) -> int:
        """The largest number of memory tokens of a prompt in these slots."""
        return max(self._memory_counts)

    def pool(self, used: Iterable[int]) -> PromptPool:
        """Return all slots as a pool for a pass that reads the used ones; its memory is as wide as theirs."""
        counts = [self._memory_counts[slot] for slot in used]
        memory = max(counts, default=self.memory)
        keys, values = self._keys[..., :memory, :], self._values[..., :memory, :]
        absent = self._absent[..., :memory] if any(count < memory for count in counts) else None
        return PromptPool(self._tokens, keys, values, absent)


def pool_prompts(backbone: Backbone, prompts: Sequence[PromptTensors]) -> PromptPool:
    """Return a pool of prompts that have a token; those with fewer memory tokens are padded."""
    ready = [precompute(backbone, prompt) for prompt in prompts]
    slots = PromptSlots(backbone, len(ready), max((prompt.memory for prompt in ready), default=0))
    for slot, prompt in enumerate(ready):
        slots.put(slot, prompt)
    return slots.pool(range(len(ready)))
