"""`alacarte eval`: run the paper's experiments on your own pictures and write a report."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

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
    RecipeName,
    Scratch,
    Seed,
    Size,
    Skip,
    Views,
    Weights,
    parse_weights,
)
from alacarte.cli.output import print_json, print_message, print_table


def evaluate_command(
    data: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER|ARCHIVE|CSV",
            help="train/CLASS and test/CLASS, or the same in a folder for each domain, or class folders alone.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the report and the cached results.")] = Path(
        "report"
    ),
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="shards, forgetting, ablation, tuning, head-only, vote, class-incremental, domain-incremental, "
            "recipes, cost, or all; may be repeated.",
            show_default="all",
        ),
    ] = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    size: Size = None,
    recipe: RecipeName = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of a prompt.", show_default="the recipe's")] = None,
    batch: Batch = None,
    label_smoothing: LabelSmoothing = None,
    augment: Augment = None,
    views: Views = None,
    joint_epochs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Epochs of the paragon, which costs 20 times as much as a prompt; 0 leaves it out.",
            show_default="half as many",
        ),
    ] = None,
    tuned_epochs: Annotated[
        int | None,
        typer.Option(min=0, help="Epochs of fine-tuned backbones; 0 leaves them out.", show_default="4"),
    ] = None,
    seed: Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="Number of seeds, starting at --seed; the report shows means and standard deviations."
        ),
    ] = 1,
    skip_unreadable: Skip = False,
    cache_gb: CacheGb = 16,
    scratch: Scratch = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Run the paper's experiments on these pictures; an interrupted run is resumed."""
    data.stat()  # before torch is imported, so that errors come at once
    from alacarte.cli.backbones import BackboneOptions
    from alacarte.cli.model.run_study import StudyOptions, evaluate
    from trainer.recipe import DEFAULT, recipe_from_settings

    name = recipe or DEFAULT
    options = {
        "recipe": name,
        "epochs": epochs,
        "batch": batch,
        "label_smoothing": label_smoothing,
        "augment": augment,
        "views": views,
    }
    study = StudyOptions(
        data=data,
        out=out,
        experiments=tuple(experiment or ["all"]),
        backbone=BackboneOptions(backbone, parse_weights(weights), device, dtype),
        size=size,
        recipe=recipe_from_settings({key: value for key, value in options.items() if value is not None}, seed),
        recipe_name=name,
        joint_epochs=joint_epochs,
        tuned_epochs=tuned_epochs,
        seeds=seeds,
        skip_unreadable=skip_unreadable,
        cache_bytes=int(cache_gb * GB),
        scratch=scratch,
    )
    report = evaluate(study)
    print_message(f"the report is {out / 'report.html'}, its numbers are in {out / 'report.json'}")
    if as_json:
        print_json(asdict(report))
        return
    claims = [(finding.name, claim) for finding in report.experiments for claim in finding.claims]
    print_table(
        ("experiment", "claim", "holds", "measured"),
        [(name, claim.text, "yes" if claim.holds else "no", claim.measured) for name, claim in claims],
    )
