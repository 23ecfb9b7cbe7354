"""`alacarte train`: train a prompt file for every shard of a dataset."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.backend import Token, TokenFile, resolve_token
from alacarte.cli.errors import CommandError
from alacarte.cli.model.prompt_files import find_earlier_prompts
from alacarte.cli.options import (
    GB,
    Augment,
    BackboneName,
    Batch,
    CacheGb,
    Device,
    Dtype,
    Json,
    LabelSmoothing,
    Pictures,
    RecipeName,
    Scratch,
    Seed,
    Size,
    Skip,
    VariantName,
    Views,
    Weights,
    Within,
    parse_weights,
)
from alacarte.cli.output import print_json, print_table

if TYPE_CHECKING:  # importing it imports httpx
    from alacarte.cli.model.push import PushTarget


def train(
    data: Pictures,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the prompt files.")] = Path("prompts"),
    shards: Annotated[int, typer.Option(min=1, help="Number of shards that are trained separately.")] = 5,
    within: Within = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    size: Size = None,
    recipe: RecipeName = None,
    variant: Annotated[VariantName | None, typer.Option(help="The parts of a prompt.", show_default="deep")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Number of epochs.", show_default="20; paper: 80")] = None,
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
    skip_unreadable: Skip = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the prompt files of an earlier training.")] = False,
    cache_gb: CacheGb = 4,
    scratch: Scratch = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    push: Annotated[
        str | None,
        typer.Option(
            "--push",
            metavar="URL",
            help="Train with the options of the source's task, and send the prompts, not pictures, to this service.",
        ),
    ] = None,
    token: Token = None,
    token_file: TokenFile = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="The source at the service, by name or id.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="NAME", help="The source's task; with it a missing source is created."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a prompt for each shard of a dataset of labelled pictures."""
    data.stat()  # before torch is imported, so that errors come at once
    find_earlier_prompts(out, force)
    target = None
    if push is not None:
        from alacarte.cli.model.push import find_push_target

        target = find_push_target(push, resolve_token(token, token_file), source, task)
    elif source is not None or task is not None:
        raise CommandError("--source and --task belong to a service: give its URL with --push")
    from alacarte.cli.backbones import BackboneOptions
    from alacarte.cli.model.train_shards import TrainPlan, train_shards
    from trainer.recipe import recipe_from_settings

    options = {
        "recipe": recipe,
        "variant": variant,
        "epochs": epochs,
        "batch": batch,
        "base_rate": rate,
        "label_smoothing": label_smoothing,
        "augment": augment,
        "views": views,
    }
    given = {name: value for name, value in options.items() if value is not None}
    plan = TrainPlan(
        data=data,
        out=out,
        shards=shards,
        within=within,
        skip_unreadable=skip_unreadable,
        force=force,
        backbone=BackboneOptions(backbone, parse_weights(weights), device, dtype),
        size=size,
        recipe=recipe_from_settings(given, seed),
        cache_bytes=int(cache_gb * GB),
        scratch=scratch,
    )
    if target is not None:
        from alacarte.cli.model.push import adapt_plan

        plan = adapt_plan(plan, target, given)
    result = train_shards(plan)
    pushed = None if target is None else _push(target, [shard.file for shard in result.shards])
    if as_json:
        print_json(
            {
                "backbone": result.backbone,
                "recipe": asdict(plan.recipe),
                "pushed": pushed,
                "left_out": [{"name": refused.name, "reason": refused.reason} for refused in result.left_out],
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
                    for shard in result.shards
                ],
            }
        )
        return
    columns = ("shard", "samples", "labels", "loss", "seconds", "file")
    rows = [
        (
            str(shard.number),
            f"{shard.samples:,}",
            f"{len(shard.labels):,}",
            f"{shard.loss:.3f}",
            f"{shard.seconds:.1f}",
            str(shard.file),
        )
        for shard in result.shards
    ]
    print_table(columns, rows, numbers=columns[:-1])


def _push(target: "PushTarget", files: list[Path]) -> dict[str, object]:
    from alacarte.cli.model.push import push_prompts

    return {"url": target.url, "source": target.source_id, "shards": push_prompts(target, files)}
