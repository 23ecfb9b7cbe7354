"""A prompt as a file: safetensors with metadata, validated in full before it is used.

The metadata is one JSON text under one key, because safetensors writes several keys in an order that changes from
call to call, and the same prompt must be the same bytes.
"""

import hashlib
import os
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as brief

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from alacarte.prompting.errors import ArtifactInvalid
from alacarte.prompting.prompt.metadata import (
    Variant,
    is_valid_text,
    metadata_from_json,
    metadata_to_json,
    parse_json_object,
)
from alacarte.prompting.prompt.tensors import MAX_MEMORY_TOKENS, PromptTensors, TrainedPrompt

# D width of the backbone, L blocks, M memory tokens a block, C labels, K prototypes

LIMIT_BYTES = 256 * 2**20
HEADER_LIMIT_BYTES = 4 * 2**20

_METADATA_KEY = "alacarte"
_FURTHER = "further."  # prefix of the names of further tensors
_NAMES: dict[Variant, tuple[str, ...]] = {
    "deep": ("token", "memory", "head_weight", "head_bias", "prototypes"),
    "deep-shared": ("token", "memory", "head_weight", "head_bias", "prototypes"),
    "shallow": ("token", "head_weight", "head_bias", "prototypes"),
    "head-only": ("head_weight", "head_bias", "prototypes"),
}
_FLOATS = {"F16", "BF16", "F32", "F64"}
_MAX_RANK = 8
_MAX_VALUE = 1e6  # of a tensor of the forward pass: below it no score can overflow
_MAX_SIDE = 2**31 - 1


def write_prompt(prompt: TrainedPrompt, path: Path) -> None:
    """Write the prompt to the path atomically: a reader sees the whole old file or the whole new one."""
    write_bytes(prompt_to_bytes(prompt), path)


def write_bytes(data: bytes, path: Path) -> None:
    """Write the bytes to the path, atomically and durably."""
    unfinished = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # where a folder can be opened: sync its new entry too
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_prompt(path: Path, limit_bytes: int = LIMIT_BYTES) -> TrainedPrompt:
    """Read and validate the prompt in the file; ArtifactInvalid gives the file's name and the reason."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactInvalid("not a file")
        _check_size(status.st_size, limit_bytes)
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)  # it may have grown since
        return prompt_from_bytes(data, limit_bytes)
    except OSError as error:
        raise ArtifactInvalid(f"{path}: {error.strerror}") from error
    except ValueError as error:  # ArtifactInvalid, or a path with a NUL
        raise ArtifactInvalid(f"{path}: {error}") from error


def prompt_digest(data: bytes) -> str:
    """Return the SHA-256 of a prompt's bytes in hex."""
    return hashlib.sha256(data).hexdigest()


def prompt_to_bytes(prompt: TrainedPrompt) -> bytes:
    """Serialize the prompt, always to the same bytes; ArtifactInvalid if they could not be read again."""
    tensors = prompt.tensors
    text = metadata_to_json(tensors.variant, prompt.metadata)
    if not all(is_valid_text(name) for name in tensors.further):
        raise ArtifactInvalid("the further tensors must have names")
    own = {
        "token": tensors.token,
        "memory": tensors.memory,
        "head_weight": tensors.head_weight,
        "head_bias": tensors.head_bias,
        "prototypes": tensors.prototypes,
    }
    named = {name: _copy(tensor.float()) for name, tensor in own.items() if tensor is not None}
    named |= {_FURTHER + name: _copy(tensor) for name, tensor in tensors.further.items()}
    data = save(named, {_METADATA_KEY: text})
    _check_header(_read_header(data, LIMIT_BYTES), tensors.variant)
    _check_tensors(named, tensors.variant, len(prompt.metadata.labels))
    return data


def prompt_from_bytes(data: bytes, limit_bytes: int = LIMIT_BYTES) -> TrainedPrompt:
    """Parse and validate a prompt; ArtifactInvalid gives the reason."""
    header = _read_header(data, limit_bytes)
    variant, metadata = metadata_from_json(_metadata_text(header))
    _check_header(header, variant)
    try:
        named = load(data)
    except SafetensorError as error:
        raise ArtifactInvalid(f"damaged or cut short: {error}") from error
    _check_tensors(named, variant, len(metadata.labels))
    tensors = PromptTensors(
        variant=variant,
        token=named.get("token"),
        memory=named.get("memory"),
        head_weight=named["head_weight"],
        head_bias=named["head_bias"],
        prototypes=named["prototypes"],
        further={name[len(_FURTHER) :]: named[name] for name in sorted(named) if name.startswith(_FURTHER)},
    )
    return TrainedPrompt(tensors, metadata)


def _copy(tensor: Tensor) -> Tensor:
    """Return a contiguous copy on the CPU."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _check_size(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise ArtifactInvalid(f"larger than the {limit_bytes} bytes that a prompt may have")


def _read_header(data: bytes, limit_bytes: int) -> dict[str, object]:
    """Parse the JSON object at the start of a safetensors file."""
    _check_size(len(data), limit_bytes)
    if len(data) < 8:
        raise ArtifactInvalid("not a safetensors file, or cut short")
    size = int.from_bytes(data[:8], "little")
    if size > HEADER_LIMIT_BYTES:
        raise ArtifactInvalid(f"not a safetensors file, or its header is over {HEADER_LIMIT_BYTES} bytes")
    if size > len(data) - 8:
        raise ArtifactInvalid("not a safetensors file, or cut short within its header")
    try:
        return parse_json_object(data[8 : 8 + size].decode())
    except UnicodeDecodeError as error:
        raise ArtifactInvalid("not a safetensors file: its header is no text") from error


def _metadata_text(header: Mapping[str, object]) -> str:
    metadata = header.get("__metadata__")
    text = metadata.get(_METADATA_KEY) if isinstance(metadata, dict) and len(metadata) == 1 else None
    if not isinstance(text, str):
        raise ArtifactInvalid(f"not a prompt: the metadata must hold {_METADATA_KEY!r} and nothing else")
    return text


def _check_header(header: Mapping[str, object], variant: Variant) -> None:
    """Refuse tensors that the variant does not have, and dtypes and shapes that safetensors or torch cannot load."""
    names = header.keys() - {"__metadata__"}
    further = {name for name in names if name.startswith(_FURTHER) and is_valid_text(name[len(_FURTHER) :])}
    if wrong := (names - further) ^ set(_NAMES[variant]):
        raise ArtifactInvalid(f"tensors missing or unknown in a {variant} prompt: {brief(sorted(wrong))}")
    for name in sorted(names):
        match header[name]:
            case {"dtype": str(kind), "shape": [*sides], "data_offsets": _, **others} if not others:
                if kind not in (_FLOATS if name in further else {"F32"}):
                    raise ArtifactInvalid(f"{brief(name)} must hold float32 numbers, not {brief(kind)}")
                if len(sides) > _MAX_RANK or not all(type(n) is int and 1 <= n <= _MAX_SIDE for n in sides):
                    raise ArtifactInvalid(f"{brief(name)} cannot have the shape {brief(sides)}")
            case _:
                raise ArtifactInvalid(f"{brief(name)} is not described as safetensors requires")


def _check_tensors(named: Mapping[str, Tensor], variant: Variant, labels: int) -> None:
    """Refuse shapes that do not fit each other, and numbers that are not finite or too large."""
    width = named["prototypes"].shape[-1] if named["prototypes"].ndim else 0
    shapes = {
        "token": (width,),
        "memory": (1 if variant == "deep-shared" else None, None, width),
        "head_weight": (labels, width),
        "head_bias": (labels,),
        "prototypes": (None, width),
    }
    for name, tensor in named.items():
        shape = shapes.get(name, tensor.shape)
        fits = [expected in (None, side) for expected, side in zip(shape, tensor.shape, strict=False)]
        if len(shape) != tensor.ndim or not all(fits):
            raise ArtifactInvalid(
                f"{name} has the shape {tuple(tensor.shape)}, which does not fit {labels} labels on width {width}"
            )
        if name == "memory" and tensor.shape[1] > MAX_MEMORY_TOKENS:
            raise ArtifactInvalid(
                f"memory has {tensor.shape[1]} tokens a block, more than the {MAX_MEMORY_TOKENS} allowed"
            )
        if not torch.isfinite(tensor).all():
            raise ArtifactInvalid(f"{brief(name)} holds a number that is not finite")
        if name in shapes and tensor.abs().amax() > _MAX_VALUE:
            raise ArtifactInvalid(f"{name} holds a number beyond {_MAX_VALUE:g}, which no training gives")
