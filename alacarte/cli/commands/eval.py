"""`alacarte eval`: the paper's experiments on anyone's pictures, with a report to look at."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

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
    Views,
    Weights,
    weights_of,
)
from alacarte.cli.output import print_json, print_message, print_table

GB = 10**9


def evaluate_command(
    data: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER|ARCHIVE|CSV",
            help="train/CLASS and test/CLASS, or the same in a folder for each domain, or class folders alone.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the report goes, and what was trained is kept.")
    ] = Path("report"),
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="shards, forgetting, ablation, tuning, head-only, vote, class-incremental, domain-incremental, "
            "recipes, cost, or all; may be given several times.",
            show_default="all",
        ),
    ] = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    size: Size = None,
    recipe: RecipeName = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Walks over the pictures of a prompt.", show_default="the recipe's")
    ] = None,
    batch: Batch = None,
    label_smoothing: LabelSmoothing = None,
    augment: Augment = None,
    views: Views = None,
    joint_epochs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of the paragon, which costs 20 times as much as a prompt; 0 leaves it out.",
            show_default="half as many",
        ),
    ] = None,
    tuned_epochs: Annotated[
        int | None,
        typer.Option(min=0, help="Of whole backbones that learn; 0 leaves them out.", show_default="4"),
    ] = None,
    seed: Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="So many seeds, from --seed on; the report has means, of answers to the same pictures."
        ),
    ] = 1,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out pictures that cannot be used.")
    ] = False,
    cache_gb: Annotated[
        float, typer.Option(min=0, max=10**6, help="Disk for what is computed once and used again.")
    ] = 16,
    scratch: Scratch = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Repeat the paper's experiments with these pictures; an interrupted run goes on where it was."""
    data.stat()  # what is told before torch is imported is told at once
    from alacarte.cli.actions.eval import Order, evaluate
    from alacarte.cli.backbones import Wanted
    from trainer.recipe import DEFAULT, recipe_from_settings

    name = recipe or DEFAULT
    said = {
        "recipe": name,
        "epochs": epochs,
        "batch": batch,
        "label_smoothing": label_smoothing,
        "augment": augment,
        "views": views,
    }
    order = Order(
        data=data,
        out=out,
        experiments=tuple(experiment or ["all"]),
        backbone=Wanted(backbone, weights_of(weights), device, dtype),
        size=size,
        recipe=recipe_from_settings({word: value for word, value in said.items() if value is not None}, seed),
        recipe_name=name,
        joint_epochs=joint_epochs,
        tuned_epochs=tuned_epochs,
        seeds=seeds,
        skip_unreadable=skip_unreadable,
        cache_bytes=int(cache_gb * GB),
        scratch=scratch,
    )
    report = evaluate(order, print_message)
    print_message(f"the report is {out / 'report.html'}, its numbers are in {out / 'report.json'}")
    if as_json:
        print_json(asdict(report))
        return
    claims = [(finding.name, claim) for finding in report.experiments for claim in finding.claims]
    print_table(
        ("experiment", "claim", "holds", "measured"),
        [(name, claim.text, "yes" if claim.holds else "no", claim.measured) for name, claim in claims],
    )
