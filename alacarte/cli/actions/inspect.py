"""The work of `alacarte inspect`: a prompt file's metadata, and how small it is beside its backbone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import timm
import torch

from alacarte.prompting.prompt.artifact import prompt_digest, read_prompt
from alacarte.prompting.prompt.metadata import PromptMetadata, Variant
from alacarte.prompting.prompt.tensors import PromptTensors


@dataclass(frozen=True)
class Inspected:
    """A prompt file in plain values."""

    file: str
    digest: str
    size_bytes: int
    metadata: PromptMetadata
    variant: Variant
    shapes: Mapping[str, tuple[int, ...]]
    parameters: int  # numbers that training moved; prototypes are computed, not trained
    backbone_parameters: int | None  # None where timm does not know the architecture


def look_into(file: Path) -> Inspected:
    """What the file holds, or ArtifactInvalid with the reason."""
    prompt = read_prompt(file)
    data = file.read_bytes()  # of a size that has just been found bearable
    tensors, metadata = prompt.tensors, prompt.metadata
    trained = (tensors.token, tensors.memory, tensors.head_weight, tensors.head_bias)
    return Inspected(
        file=str(file),
        digest=prompt_digest(data),
        size_bytes=len(data),
        metadata=metadata,
        variant=tensors.variant,
        shapes=_shapes(tensors),
        parameters=sum(tensor.numel() for tensor in trained if tensor is not None),
        backbone_parameters=count_parameters(metadata.architecture, metadata.size),
    )


@cache
def count_parameters(architecture: str, size: int) -> int | None:
    """How many parameters timm gives the architecture without its classifier; no memory is taken for them."""
    if not timm.is_model(architecture):
        return None
    try:
        with torch.device("meta"):
            model: torch.nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0, img_size=size)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # a file may claim any architecture at any size
    return sum(parameter.numel() for parameter in model.parameters())


def _shapes(tensors: PromptTensors) -> dict[str, tuple[int, ...]]:
    named = {
        "token": tensors.token,
        "memory": tensors.memory,
        "head_weight": tensors.head_weight,
        "head_bias": tensors.head_bias,
        "prototypes": tensors.prototypes,
        **{f"further.{name}": tensor for name, tensor in tensors.further.items()},
    }
    return {name: tuple(tensor.shape) for name, tensor in named.items() if tensor is not None}
