"""`alacarte demo`: the whole idea in two minutes, on pictures that come with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import CommandRefused
from alacarte.cli.options import Json, Seed, Weights, weights_of
from alacarte.cli.tables import percent, print_json, print_table, say

if TYPE_CHECKING:  # importing it imports torch
    from alacarte.cli.actions.demo import Demonstration


def demo(
    weights: Weights = None,
    seed: Seed = 0,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Leave the pictures and the prompts there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Four people teach a backbone handwritten digits; one is forgotten, and comes back."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise CommandRefused(f"{keep} is there already: name a new folder with --keep")
    from alacarte.cli.actions import demo

    shown = demo.demonstrate(weights_of(weights), seed, demo.EXTENT, keep, say)
    if as_json:
        print_json(_as_document(shown))
        return
    print_table(
        ("source", "digits", "pictures", "seconds"),
        [(source.name, source.digits, str(source.samples), f"{source.seconds:.1f}") for source in shown.sources],
        title="Four sources, a prompt for each",
        numbers=("pictures", "seconds"),
    )
    print_table(
        ("who answers", "right", "of 0-4", "of 5-9"),
        [
            (score.name, percent(score.right), percent(score.right_low), percent(score.right_high))
            for score in shown.scores
        ],
        title=f"{shown.tests} pictures that nobody trained on",
        numbers=("right", "of 0-4", "of 5-9"),
    )
    typer.echo(
        f"{shown.forgotten} was forgotten without training anything, then added back: "
        f"all {shown.compared:,} scores are exactly what they were before.\nDone in {shown.seconds:.0f} s."
    )


def _as_document(shown: "Demonstration") -> dict[str, object]:
    return {
        "backbone": shown.backbone,
        "sources": [
            {"name": source.name, "digits": source.digits, "samples": source.samples, "seconds": source.seconds}
            for source in shown.sources
        ],
        "tests": shown.tests,
        "scores": [
            {
                "name": score.name,
                "sources": list(score.sources),
                "right": score.right,
                "right_of_0_4": score.right_low,
                "right_of_5_9": score.right_high,
            }
            for score in shown.scores
        ],
        "forgotten": shown.forgotten,
        "scores_compared": shown.compared,
        "restored_exactly": True,
        "seconds": shown.seconds,
    }
