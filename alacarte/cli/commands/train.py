"""`alacarte train`: a prompt for every shard of a collection, each in a file of its own."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import CommandError
from alacarte.cli.options import (
    Augment,
    BackboneName,
    Batch,
    Device,
    Dtype,
    Json,
    LabelSmoothing,
    RecipeName,
    Scratch,
    Seed,
    Size,
    VariantName,
    Views,
    Weights,
    weights_of,
)
from alacarte.cli.output import print_json, print_message, print_table
from alacarte.cli.prompt_files import require_room
from alacarte.cli.remote_options import Token, TokenFile, proof_of

if TYPE_CHECKING:  # importing it imports httpx, which only sending needs
    from alacarte.cli.actions.push import Destination

GB = 10**9


def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|ARCHIVE|CSV",
            help="Class folders of pictures, a zip or tar of them, or a CSV that names pictures and labels.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the prompt files go.")] = Path("prompts"),
    shards: Annotated[int, typer.Option(min=1, help="Parts that are trained by themselves.")] = 5,
    within: Annotated[
        str | None, typer.Option(metavar="SUBFOLDER", help="Read only this subfolder, such as train.")
    ] = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    size: Size = None,
    recipe: RecipeName = None,
    variant: Annotated[VariantName | None, typer.Option(help="What a prompt consists of.", show_default="deep")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Walks over all pictures.", show_default="20; paper: 80")
    ] = None,
    batch: Batch = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0, help="Learning rate for a batch of 256.", show_default="0.03; paper: 0.1, and 0.5 for head-only"
        ),
    ] = None,
    label_smoothing: LabelSmoothing = None,
    augment: Augment = None,
    views: Views = None,
    seed: Seed = 0,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out pictures that cannot be read.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the prompt files of an earlier training.")] = False,
    cache_gb: Annotated[
        float, typer.Option(min=0, max=10**6, help="Disk for what is computed once and used again.")
    ] = 4,
    scratch: Scratch = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    push: Annotated[
        str | None,
        typer.Option(
            "--push",
            metavar="URL",
            help="Send the prompts to this service, trained as their task there asks; no picture leaves.",
        ),
    ] = None,
    token: Token = None,
    token_file: TokenFile = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="Whose prompts they are there, by name or id.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="NAME", help="The source's task; it has the source made, if need be."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a prompt for each shard of a collection of labelled pictures."""
    data.stat()  # what is told before torch is imported is told at once
    require_room(out, force)
    destination = None
    if push is not None:
        from alacarte.cli.actions.push import find_destination

        destination = find_destination(push, proof_of(token, token_file), source, task, print_message)
    elif source is not None or task is not None:
        raise CommandError("--source and --task are of a service: name it with --push")
    from alacarte.cli.actions.train import Plan, train_shards
    from alacarte.cli.backbones import Wanted
    from trainer.recipe import recipe_from_settings

    said = {
        "recipe": recipe,
        "variant": variant,
        "epochs": epochs,
        "batch": batch,
        "base_rate": rate,
        "label_smoothing": label_smoothing,
        "augment": augment,
        "views": views,
    }
    given = {word: value for word, value in said.items() if value is not None}
    plan = Plan(
        data=data,
        out=out,
        shards=shards,
        within=within,
        skip_unreadable=skip_unreadable,
        force=force,
        backbone=Wanted(backbone, weights_of(weights), device, dtype),
        size=size,
        recipe=recipe_from_settings(given, seed),
        cache_bytes=int(cache_gb * GB),
        scratch=scratch,
    )
    if destination is not None:
        from alacarte.cli.actions.push import suit

        plan = suit(plan, destination, given, print_message)
    outcome = train_shards(plan, print_message)
    pushed = None if destination is None else _push(destination, [shard.file for shard in outcome.shards])
    if as_json:
        print_json(
            {
                "backbone": outcome.backbone,
                "recipe": asdict(plan.recipe),
                "pushed": pushed,
                "left_out": [{"name": left.name, "reason": left.reason} for left in outcome.left_out],
                "prompts": [
                    {
                        "shard": shard.number,
                        "file": str(shard.file),
                        "digest": shard.digest,
                        "samples": shard.samples,
                        "labels": list(shard.labels),
                        "loss": shard.loss,
                        "seconds": round(shard.seconds, 3),
                    }
                    for shard in outcome.shards
                ],
            }
        )
        return
    print_table(
        ("shard", "samples", "labels", "loss", "seconds", "file"),
        [
            (
                str(shard.number),
                f"{shard.samples:,}",
                f"{len(shard.labels):,}",
                f"{shard.loss:.3f}",
                f"{shard.seconds:.1f}",
                str(shard.file),
            )
            for shard in outcome.shards
        ],
        numbers=("shard", "samples", "labels", "loss", "seconds"),
    )


def _push(destination: "Destination", files: list[Path]) -> dict[str, object]:
    from alacarte.cli.actions.push import push_prompts

    shards = push_prompts(destination, files, print_message)
    return {"url": destination.url, "source": str(destination.source_id), "shards": shards}
