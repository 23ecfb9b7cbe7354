"""`alacarte inspect`: what is in prompt files."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.options import Json
from alacarte.cli.output import print_json, print_table
from alacarte.cli.prompt_files import find_prompt_files

if TYPE_CHECKING:  # importing it imports torch
    from alacarte.cli.actions.inspect import Inspected

LABELS_SHOWN = 10


def inspect(
    prompts: Annotated[
        list[str],
        typer.Argument(metavar="FILE|FOLDER|PATTERN", help="Prompt files.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Show the metadata of prompt files: what they were trained on, their shapes and their size."""
    files = find_prompt_files(prompts)  # what is told before torch is imported is told at once
    from alacarte.cli.actions.inspect import look_into

    inspected = [look_into(file) for file in files]
    if as_json:
        print_json({"prompts": [_as_document(prompt) for prompt in inspected]})
        return
    for prompt in inspected:
        print_table(("fact", "value"), _rows(prompt), title=prompt.file)


def _rows(prompt: "Inspected") -> list[tuple[str, str]]:
    metadata = prompt.metadata
    parameters = f"{prompt.parameters:,}"
    if prompt.backbone_parameters is not None:
        share = 100 * prompt.parameters / prompt.backbone_parameters
        parameters += f", {share:.3f} % of the backbone's {prompt.backbone_parameters:,}"
    labels = ", ".join(metadata.labels[:LABELS_SHOWN])
    if len(metadata.labels) > LABELS_SHOWN:
        labels += f" and {len(metadata.labels) - LABELS_SHOWN} more"
    return [
        ("digest", prompt.digest),
        ("bytes", f"{prompt.size_bytes:,}"),
        ("backbone", f"{metadata.architecture} at {metadata.size} px"),
        ("its identity", metadata.backbone),
        ("samples", f"{metadata.samples:,}"),
        ("labels", f"{len(metadata.labels)}: {labels}"),
        ("variant", prompt.variant),
        ("seed", str(metadata.seed)),
        ("parameters", parameters),
        *((name, " x ".join(map(str, shape))) for name, shape in prompt.shapes.items()),
        ("settings", ", ".join(f"{name} {value}" for name, value in sorted(metadata.settings.items()))),
    ]


def _as_document(prompt: "Inspected") -> dict[str, object]:
    metadata, whole = prompt.metadata, prompt.backbone_parameters
    return {
        "file": prompt.file,
        "digest": prompt.digest,
        "bytes": prompt.size_bytes,
        "backbone": {"architecture": metadata.architecture, "size": metadata.size, "identity": metadata.backbone},
        "samples": metadata.samples,
        "labels": list(metadata.labels),
        "variant": prompt.variant,
        "seed": metadata.seed,
        "settings": dict(metadata.settings),
        "tensors": {name: list(shape) for name, shape in prompt.shapes.items()},
        "parameters": prompt.parameters,
        "backbone_parameters": whole,
        "share": None if whole is None else prompt.parameters / whole,
    }
