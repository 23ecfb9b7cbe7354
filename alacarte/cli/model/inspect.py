"""`alacarte inspect`: what is in prompt files."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alacarte.cli.model.prompt_files import find_prompt_files
from alacarte.cli.options import Json
from alacarte.cli.output import print_json, print_table

if TYPE_CHECKING:  # importing it imports torch
    from alacarte.prompting.prompt.tensors import PromptTensors

MAX_LISTED_LABELS = 10


def inspect(
    prompts: Annotated[
        list[str],
        typer.Argument(metavar="FILE|FOLDER|PATTERN", help="Prompt files.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Show the metadata of prompt files: what they were trained on, their shapes and their size."""
    files = find_prompt_files(prompts)  # before torch is imported, so that errors come at once
    documents = [_read_document(file) for file in files]
    if as_json:
        print_json({"prompts": documents})
        return
    for document in documents:
        print_table(("field", "value"), _format_rows(document), title=document["file"])


def _read_document(file: Path) -> dict[str, Any]:  # Any: values of JSON
    """Return the content of a prompt file; ArtifactInvalid with the reason if it is none."""
    from alacarte.prompting.prompt.artifact import prompt_digest, read_prompt

    prompt = read_prompt(file)
    data = file.read_bytes()  # read_prompt has limited its size
    tensors, metadata = prompt.tensors, prompt.metadata
    # Prototypes are computed, not trained.
    trained = (tensors.token, tensors.memory, tensors.head_weight, tensors.head_bias)
    parameters = sum(tensor.numel() for tensor in trained if tensor is not None)
    backbone_parameters = _count_parameters(metadata.architecture, metadata.size)
    return {
        "file": str(file),
        "digest": prompt_digest(data),
        "bytes": len(data),
        "backbone": {"architecture": metadata.architecture, "size": metadata.size, "identity": metadata.backbone},
        "samples": metadata.samples,
        "labels": list(metadata.labels),
        "variant": tensors.variant,
        "seed": metadata.seed,
        "settings": dict(metadata.settings),
        "tensors": _read_shapes(tensors),
        "parameters": parameters,
        "backbone_parameters": backbone_parameters,
        "share": None if backbone_parameters is None else parameters / backbone_parameters,
    }


def _format_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    backbone, labels = document["backbone"], document["labels"]
    parameters = f"{document['parameters']:,}"
    if document["share"] is not None:
        parameters += f", {100 * document['share']:.3f} % of the backbone's {document['backbone_parameters']:,}"
    listed = ", ".join(labels[:MAX_LISTED_LABELS])
    if len(labels) > MAX_LISTED_LABELS:
        listed += f" and {len(labels) - MAX_LISTED_LABELS} more"
    return [
        ("digest", document["digest"]),
        ("bytes", f"{document['bytes']:,}"),
        ("backbone", f"{backbone['architecture']} at {backbone['size']} px"),
        ("its identity", backbone["identity"]),
        ("samples", f"{document['samples']:,}"),
        ("labels", f"{len(labels)}: {listed}"),
        ("variant", document["variant"]),
        ("seed", str(document["seed"])),
        ("parameters", parameters),
        *((name, " x ".join(map(str, shape))) for name, shape in document["tensors"].items()),
        ("settings", ", ".join(f"{name} {value}" for name, value in sorted(document["settings"].items()))),
    ]


@cache
def _count_parameters(architecture: str, size: int) -> int | None:
    """Count the parameters of timm's architecture without its classifier; None if timm cannot build it."""
    import timm
    import torch

    if not timm.is_model(architecture):
        return None
    try:
        with torch.device("meta"):  # allocates no memory
            model: torch.nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0, img_size=size)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # a file may name any architecture at any size
    return sum(parameter.numel() for parameter in model.parameters())


def _read_shapes(tensors: "PromptTensors") -> dict[str, list[int]]:
    named = {
        "token": tensors.token,
        "memory": tensors.memory,
        "head_weight": tensors.head_weight,
        "head_bias": tensors.head_bias,
        "prototypes": tensors.prototypes,
        **{f"further.{name}": tensor for name, tensor in tensors.further.items()},
    }
    return {name: list(tensor.shape) for name, tensor in named.items() if tensor is not None}
