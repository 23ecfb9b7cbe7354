"""Prompts made ready for a backbone, and the slots on its device in which they come and go."""

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
    """What a pass reads of a prompt in attention, on the backbone's device: functions of the prompt alone."""

    token: Tensor | None  # (D), none for head-only
    keys_values: Tensor | None  # (L, 2, H, M, d), none for shallow and head-only

    @property
    def memory(self) -> int:
        """How many memory tokens a block it has."""
        return 0 if self.keys_values is None else self.keys_values.shape[3]


@dataclass(frozen=True)
class PrecomputedPrompt(AttentionState):
    """All that a pass reads of a prompt."""

    head_weight: Tensor  # (C, D)
    head_bias: Tensor  # (C)


def memory_keys_values(backbone: Backbone, memory: Tensor) -> Tensor:
    """Memory (L, M, D) as keys and values (L, 2, H, M, d): functions of the prompt alone."""
    both = [
        torch.stack(block.keys_values(block.normalise(layer)))  # (2, M, H, d)
        for block, layer in zip(backbone.blocks, memory, strict=True)
    ]
    return torch.stack(both).transpose(2, 3)


@torch.inference_mode()
def precompute(backbone: Backbone, prompt: PromptTensors) -> PrecomputedPrompt:
    """The prompt as passes of this backbone read it; what depends on it alone is computed here, once."""
    device, dtype = backbone.device, backbone.dtype
    keys_values = None
    if prompt.memory is not None:
        memory = prompt.memory.to(device, dtype).expand(backbone.depth, -1, -1)  # deep-shared: (1, M, D)
        keys_values = memory_keys_values(backbone, memory)
    token = None if prompt.token is None else prompt.token.to(device, dtype)
    return PrecomputedPrompt(token, keys_values, prompt.head_weight.to(device), prompt.head_bias.to(device))


class PromptSlots:
    """Room for `count` attending prompts of up to `memory` memory tokens a block, set aside once."""

    @torch.inference_mode()
    def __init__(self, backbone: Backbone, count: int, memory: int) -> None:
        depth, heads, d = backbone.depth, backbone.heads, backbone.head_width
        self.count, self.memory = count, memory
        # Left as it is: an empty slot is never read, and memory that nobody touches costs nothing.
        self._tokens = torch.empty(count, backbone.width, device=backbone.device, dtype=backbone.dtype)
        self._keys = self._tokens.new_empty(depth, count, heads, memory, d)
        self._values = torch.empty_like(self._keys)
        self._absent = self._tokens.new_empty(count, 1, memory)
        self._held = [0] * count  # memory tokens of the prompt in each slot

    @staticmethod
    def bytes_each(backbone: Backbone, memory: int) -> int:
        """What one slot of that many memory tokens takes on the device."""
        keys_values = 2 * backbone.depth * backbone.heads * backbone.head_width * memory
        return (backbone.width + keys_values + memory) * backbone.dtype.itemsize

    @torch.inference_mode()
    def put(self, slot: int, prompt: AttentionState) -> None:
        """The slot holds this prompt, and nothing of whatever it held before."""
        assert prompt.token is not None, "a head-only prompt takes no part in attention"
        count = prompt.memory
        self._tokens[slot] = prompt.token
        if prompt.keys_values is not None:
            self._keys[:, slot, :, :count], self._values[:, slot, :, :count] = prompt.keys_values.unbind(1)
        # Weights of absent memory are 0, and 0 times whatever lay there need not be 0.
        self._keys[:, slot, :, count:] = 0
        self._values[:, slot, :, count:] = 0
        self._absent[slot, :, :count] = 0
        self._absent[slot, :, count:] = -torch.inf
        self._held[slot] = count

    @torch.inference_mode()
    def take_out(self, slot: int) -> AttentionState:
        """What the slot held, which is cleared."""
        own = self._held[slot]
        keys_values = torch.stack(
            [self._keys[:, slot, :, :own], self._values[:, slot, :, :own]], dim=1
        )  # (L, 2, H, M, d)
        held = AttentionState(self._tokens[slot].clone(), keys_values)
        self.clear(slot)
        return held

    @torch.inference_mode()
    def clear(self, slot: int) -> None:
        """Nothing of the slot's prompt is left in it."""
        self._tokens[slot] = 0
        self._keys[:, slot] = 0
        self._values[:, slot] = 0
        self._held[slot] = 0

    @property
    def widest(self) -> int:
        """The most memory tokens that a prompt in these slots has."""
        return max(self._held)

    def pool(self, used: Iterable[int]) -> PromptPool:
        """All slots as a pool for a pass that reads the used ones only, and no more of them than the widest has."""
        held = [self._held[slot] for slot in used]
        memory = max(held, default=self.memory)
        keys, values = self._keys[..., :memory, :], self._values[..., :memory, :]
        absent = self._absent[..., :memory] if any(own < memory for own in held) else None
        return PromptPool(self._tokens, keys, values, absent)


def pool_prompts(backbone: Backbone, prompts: Sequence[PromptTensors]) -> PromptPool:
    """A pool of prompts that have a token; one with fewer memory tokens than another is padded."""
    ready = [precompute(backbone, prompt) for prompt in prompts]
    slots = PromptSlots(backbone, len(ready), max((prompt.memory for prompt in ready), default=0))
    for slot, prompt in enumerate(ready):
        slots.put(slot, prompt)
    return slots.pool(range(len(ready)))
