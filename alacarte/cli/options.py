"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

# Repeated here because the originals import torch; a test compares them.
VariantName = Literal["deep", "deep-shared", "shallow", "head-only"]
AugmentationName = Literal["randaugment", "none"]
DtypeName = Literal["float32", "bfloat16"]
RecipeChoice = Literal["default", "paper"]

MAX_SEED = 2**32 - 1
GB = 10**9

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; messages go to stderr.")]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="FILE|random",
        help="The backbone's weights: a .safetensors file, or 'random' for tests.",
        show_default="from the hub",
    ),
]
Device = Annotated[str, typer.Option("--device", help="Torch device: cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[DtypeName, typer.Option("--dtype", help="Precision of the backbone.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="The same seed gives the same bytes.")]
BackboneName = Annotated[
    str | None,
    typer.Option(
        "--backbone", metavar="NAME", help="The timm name of a vision transformer.", show_default="ViT-Ti, 224 px"
    ),
]
Size = Annotated[
    int | None,
    typer.Option("--size", min=1, metavar="PX", help="Side of the input in pixels.", show_default="the backbone's"),
]
Scratch = Annotated[
    Path | None,
    typer.Option(
        "--scratch", metavar="FOLDER", help="Folder for the cache and unpacked archives.", show_default="the system's"
    ),
]
RecipeName = Annotated[
    RecipeChoice | None,
    typer.Option(
        "--recipe",
        help="Base recipe; other options override it. default: fast; paper: as in the paper.",
        show_default="default",
    ),
]
LabelSmoothing = Annotated[
    float | None,
    typer.Option(
        "--label-smoothing",
        min=0,
        max=0.99,
        help="Label smoothing, which helps when prompts of small shards are averaged.",
        show_default="none",
    ),
]
Augment = Annotated[
    AugmentationName | None,
    typer.Option("--augment", help="Data augmentation.", show_default="randaugment"),
]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Pictures in a batch.", show_default="16; paper: 8")]
Views = Annotated[
    int | None,
    typer.Option(
        "--views",
        min=1,
        metavar="K",
        help="Augmented versions of a picture that are cached and take turns.",
        show_default="4; paper: a new one every epoch",
    ),
]
Pictures = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|ARCHIVE|CSV",
        help="Class folders of pictures, a zip or tar of them, or a CSV that names pictures and labels.",
        show_default=False,
    ),
]
Within = Annotated[
    str | None, typer.Option("--within", metavar="SUBFOLDER", help="Read only this subfolder, such as train.")
]
Skip = Annotated[
    bool, typer.Option("--skip-unreadable", help="Leave out unreadable pictures and list them, instead of failing.")
]
CacheGb = Annotated[float, typer.Option(min=0, max=10**6, help="Disk space for cached backbone states, in GB.")]
SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="A source's name or id.", show_default=False)]
UserName = Annotated[str, typer.Argument(metavar="USER", help="A user's name or id.", show_default=False)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="A group's name or id.", show_default=False)]
InTask = Annotated[
    str | None,
    typer.Option("--task", help="The task of the source, by name or id.", show_default="needed for shared names"),
]
OfTask = Annotated[str | None, typer.Option("--task", help="Only those of this task.", show_default="all")]
OfUser = Annotated[str | None, typer.Option("--user", help="Only those of this user.", show_default="all")]


def parse_weights(text: str | None) -> Path | Literal["random"] | None:
    """Parse the value of `--weights`."""
    if text is None or text == "random":
        return text  # type: ignore[return-value]  # mypy does not narrow a str by `==`
    return Path(text)
