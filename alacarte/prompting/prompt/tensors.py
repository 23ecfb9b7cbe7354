"""A prompt: the numbers that one shard taught one backbone, and the metadata that travel with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import Tensor

# D width of the backbone, L blocks, M memory tokens a block, C labels, K prototypes

Variant = Literal["deep", "deep-shared", "shallow", "head-only"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

MAX_MEMORY_TOKENS = 64  # memory tokens a block: the largest of a pool is what every prompt beside it takes

SettingValue = str | int | float | bool | None


@dataclass(frozen=True)
class PromptTensors:
    """The numbers of a prompt; which are there depends on the variant."""

    variant: Variant
    token: Tensor | None  # (D), none for head-only
    memory: Tensor | None  # (L, M, D); (1, M, D) for deep-shared; none for shallow and head-only
    head_weight: Tensor  # (C, D)
    head_bias: Tensor  # (C)
    prototypes: Tensor  # (K, D)
    further: Mapping[str, Tensor] = field(default_factory=dict)  # named tensors of later methods


@dataclass(frozen=True)
class PromptMetadata:
    """What is true of a prompt besides its numbers."""

    backbone: str  # identity of the backbone that it was trained on, a SHA-256
    architecture: str  # its name, to find it again
    size: int  # the side of its pictures in pixels
    labels: tuple[str, ...]  # sorted; row c of the head speaks for labels[c]
    samples: int
    seed: int
    settings: Mapping[str, SettingValue]


@dataclass(frozen=True)
class TrainedPrompt:
    """What one generation of one shard taught one backbone."""

    tensors: PromptTensors
    metadata: PromptMetadata
