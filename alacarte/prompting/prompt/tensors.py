"""A trained prompt: its tensors, with its metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from alacarte.prompting.prompt.metadata import PromptMetadata, Variant

# D width of the backbone, L blocks, M memory tokens a block, C labels, K prototypes

MAX_MEMORY_TOKENS = 64  # a block: in a pool, every prompt takes as much memory as the largest


@dataclass(frozen=True)
class PromptTensors:
    """The tensors of a prompt; the variant decides which are present."""

    variant: Variant
    token: Tensor | None  # (D), none for head-only
    memory: Tensor | None  # (L, M, D); (1, M, D) for deep-shared; none for shallow and head-only
    head_weight: Tensor  # (C, D)
    head_bias: Tensor  # (C)
    prototypes: Tensor  # (K, D)
    further: Mapping[str, Tensor] = field(default_factory=dict)  # named tensors of later methods


@dataclass(frozen=True)
class TrainedPrompt:
    """The result of training one generation of one shard on one backbone."""

    tensors: PromptTensors
    metadata: PromptMetadata
