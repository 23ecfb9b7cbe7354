"""The options that several commands share, so that they are spelled and explained alike."""

from pathlib import Path
from typing import Annotated, Literal

import typer

# Spelled out here because importing them from where they live would import torch; a test compares them.
VariantName = Literal["deep", "deep-shared", "shallow", "head-only"]
AugmentationName = Literal["randaugment", "none"]
DtypeName = Literal["float32", "bfloat16"]
RecipeChoice = Literal["default", "paper"]

LARGEST_SEED = 2**32 - 1

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; messages go to stderr.")]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="FILE|random",
        help="The backbone's weights: a .safetensors file, or 'random' to try things out.",
        show_default="from the hub",
    ),
]
Device = Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[DtypeName, typer.Option("--dtype", help="Precision of the backbone.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="The same seed gives the same bytes.")]
BackboneName = Annotated[
    str | None,
    typer.Option("--backbone", metavar="NAME", help="A vision transformer of timm.", show_default="ViT-Ti, 224 px"),
]
Size = Annotated[
    int | None,
    typer.Option("--size", min=1, metavar="PX", help="Side of the pictures.", show_default="the backbone's"),
]
Scratch = Annotated[
    Path | None,
    typer.Option(
        "--scratch", metavar="FOLDER", help="For the cache and unpacked archives.", show_default="the system's"
    ),
]
RecipeName = Annotated[
    RecipeChoice | None,
    typer.Option(
        "--recipe",
        help="What is not said otherwise: our default, quick and measured; or the paper's own.",
        show_default="default",
    ),
]
LabelSmoothing = Annotated[
    float | None,
    typer.Option(
        "--label-smoothing",
        min=0,
        max=0.99,
        help="Share of the target that all labels get: prompts of small shards that are less sure average better.",
        show_default="none",
    ),
]
Augment = Annotated[
    AugmentationName | None,
    typer.Option("--augment", help="How pictures are varied.", show_default="randaugment"),
]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Pictures in a step.", show_default="16; paper: 8")]
Views = Annotated[
    int | None,
    typer.Option(
        "--views",
        min=1,
        metavar="K",
        help="Variations of a picture that take turns, and can be cached.",
        show_default="4; paper: a new one every epoch",
    ),
]
SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="A source's name or id.", show_default=False)]
InTask = Annotated[
    str | None,
    typer.Option("--task", help="The task of the source, by name or id.", show_default="needed if names are shared"),
]


def weights_of(text: str | None) -> Path | Literal["random"] | None:
    """What `--weights` means."""
    if text is None or text == "random":
        return text  # type: ignore[return-value]  # mypy does not narrow a str by `==`
    return Path(text)
