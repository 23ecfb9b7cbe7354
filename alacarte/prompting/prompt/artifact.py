"""A prompt as a file: safetensors with its metadata in the metadata, checked in full before it is used.

The metadata are one text under one key, because safetensors writes several keys in an order that changes from
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
from alacarte.prompting.prompt.metadata import is_text, json_object, metadata_from_json, metadata_to_json
from alacarte.prompting.prompt.tensors import MAX_MEMORY_TOKENS, PromptTensors, TrainedPrompt, Variant

# D width of the backbone, L blocks, M memory tokens a block, C labels, K prototypes

LIMIT_BYTES = 256 * 2**20
HEADER_LIMIT_BYTES = 4 * 2**20

_FACTS = "alacarte"  # the key of the metadata in the metadata
_FURTHER = "further."  # what the names of further tensors begin with
_NAMES: dict[Variant, tuple[str, ...]] = {
    "deep": ("token", "memory", "head_weight", "head_bias", "prototypes"),
    "deep-shared": ("token", "memory", "head_weight", "head_bias", "prototypes"),
    "shallow": ("token", "head_weight", "head_bias", "prototypes"),
    "head-only": ("head_weight", "head_bias", "prototypes"),
}
_FLOATS = {"F16", "BF16", "F32", "F64"}
_MAX_RANK = 8
_LARGEST = 1e6  # of a number that attends or is multiplied: below it no answer can overflow
_MAX_SIDE = 2**31 - 1


def write_prompt(prompt: TrainedPrompt, path: Path) -> None:
    """Put the prompt at the path; at every moment the path has all of the old file or all of the new one."""
    write_bytes(prompt_to_bytes(prompt), path)


def write_bytes(data: bytes, path: Path) -> None:
    """Put the bytes at the path, all or nothing, and so that a crash does not take them away again."""
    unfinished = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # where a folder can be opened, its new entry is made durable too
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_prompt(path: Path, limit_bytes: int = LIMIT_BYTES) -> TrainedPrompt:
    """The prompt in the file, or ArtifactInvalid with the file's name and the reason."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactInvalid("not a file")
        _check_size(status.st_size, limit_bytes)
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)  # it may have grown meanwhile
        return prompt_from_bytes(data, limit_bytes)
    except OSError as error:
        raise ArtifactInvalid(f"{path}: {error.strerror}") from error
    except ValueError as error:  # ArtifactInvalid, or a path that no system can have
        raise ArtifactInvalid(f"{path}: {error}") from error


def prompt_digest(data: bytes) -> str:
    """The name of a prompt's bytes: their SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def prompt_to_bytes(prompt: TrainedPrompt) -> bytes:
    """The bytes of the prompt, always the same for the same prompt; none that could not be read again."""
    tensors = prompt.tensors
    text = metadata_to_json(tensors.variant, prompt.metadata)
    if not all(is_text(name) for name in tensors.further):
        raise ArtifactInvalid("the further tensors must have names")
    own = {
        "token": tensors.token,
        "memory": tensors.memory,
        "head_weight": tensors.head_weight,
        "head_bias": tensors.head_bias,
        "prototypes": tensors.prototypes,
    }
    named = {name: _dense(tensor.float()) for name, tensor in own.items() if tensor is not None}
    named |= {_FURTHER + name: _dense(tensor) for name, tensor in tensors.further.items()}
    data = save(named, {_FACTS: text})
    _check_header(_header(data, LIMIT_BYTES), tensors.variant)
    _check_numbers(named, tensors.variant, len(prompt.metadata.labels))
    return data


def prompt_from_bytes(data: bytes, limit_bytes: int = LIMIT_BYTES) -> TrainedPrompt:
    """The prompt that the bytes hold, or ArtifactInvalid with the reason."""
    header = _header(data, limit_bytes)
    variant, metadata = metadata_from_json(_facts_text(header))
    _check_header(header, variant)
    try:
        named = load(data)
    except SafetensorError as error:
        raise ArtifactInvalid(f"damaged or cut short: {error}") from error
    _check_numbers(named, variant, len(metadata.labels))
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


def _dense(tensor: Tensor) -> Tensor:
    """A copy on the CPU that shares its memory with no other."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _check_size(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise ArtifactInvalid(f"larger than the {limit_bytes} bytes that a prompt may have")


def _header(data: bytes, limit_bytes: int) -> dict[str, object]:
    """The JSON object that opens a safetensors file."""
    _check_size(len(data), limit_bytes)
    if len(data) < 8:
        raise ArtifactInvalid("not a safetensors file, or cut short")
    size = int.from_bytes(data[:8], "little")
    if size > HEADER_LIMIT_BYTES:
        raise ArtifactInvalid(f"not a safetensors file, or its header is over {HEADER_LIMIT_BYTES} bytes")
    if size > len(data) - 8:
        raise ArtifactInvalid("not a safetensors file, or cut short within its header")
    try:
        return json_object(data[8 : 8 + size].decode())
    except UnicodeDecodeError as error:
        raise ArtifactInvalid("not a safetensors file: its header is no text") from error


def _facts_text(header: Mapping[str, object]) -> str:
    metadata = header.get("__metadata__")
    text = metadata.get(_FACTS) if isinstance(metadata, dict) and len(metadata) == 1 else None
    if not isinstance(text, str):
        raise ArtifactInvalid(f"not a prompt: the metadata must hold {_FACTS!r} and nothing else")
    return text


def _check_header(header: Mapping[str, object], variant: Variant) -> None:
    """Refuse tensors that the variant does not have, and kinds that the libraries below stumble over."""
    names = header.keys() - {"__metadata__"}
    further = {name for name in names if name.startswith(_FURTHER) and is_text(name[len(_FURTHER) :])}
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
                raise ArtifactInvalid(f"{brief(name)} is not described in the way of safetensors")


def _check_numbers(named: Mapping[str, Tensor], variant: Variant, labels: int) -> None:
    """Refuse shapes that do not fit each other, and numbers that are none."""
    width = named["prototypes"].shape[-1] if named["prototypes"].ndim else 0
    wanted = {
        "token": (width,),
        "memory": (1 if variant == "deep-shared" else None, None, width),
        "head_weight": (labels, width),
        "head_bias": (labels,),
        "prototypes": (None, width),
    }
    for name, tensor in named.items():
        shape = wanted.get(name, tensor.shape)
        fits = [want in (None, side) for want, side in zip(shape, tensor.shape, strict=False)]
        if len(shape) != tensor.ndim or not all(fits):
            found = f"{name} has the shape {tuple(tensor.shape)}"
            raise ArtifactInvalid(f"{found}, which does not fit {labels} labels on width {width}")
        if name == "memory" and tensor.shape[1] > MAX_MEMORY_TOKENS:
            raise ArtifactInvalid(
                f"memory has {tensor.shape[1]} tokens a block, more than the {MAX_MEMORY_TOKENS} allowed"
            )
        if not torch.isfinite(tensor).all():
            raise ArtifactInvalid(f"{brief(name)} holds a number that is not finite")
        if name in wanted and tensor.abs().amax() > _LARGEST:  # an answer could leave the finite numbers
            raise ArtifactInvalid(f"{name} holds a number beyond {_LARGEST:g}, which no training gives")
