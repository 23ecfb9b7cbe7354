"""`alacarte predict`: what a set of prompts says about pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.options import Device, Dtype, Json, Weights, weights_of
from alacarte.cli.output import print_json, print_message, print_table
from alacarte.cli.prompt_files import SUFFIX, find_prompt_files

if TYPE_CHECKING:  # importing it imports torch
    from alacarte.cli.actions.predict import Ranking, Verdict


def predict(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Pictures.", show_default=False)],
    prompts: Annotated[
        list[str],
        typer.Option(
            metavar="FILE|FOLDER|PATTERN",
            help="The prompts to ask, as often as needed; quote a pattern: 'prompts/*.safetensors'.",
            show_default=False,
        ),
    ],
    composition: Annotated[Composition, typer.Option(help="How answers become one.")] = "average",
    weighting: Annotated[Weighting, typer.Option(help="Whether prompts that know such pictures count more.")] = "none",
    top_k: Annotated[int, typer.Option(min=1, help="Labels to show of each picture.")] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Show each prompt's weight and own answer too.")] = False,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name it was trained with.", show_default="as the prompts say"),
    ] = None,
    weights: Weights = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Label pictures by a set of prompts."""
    _refuse_misreadings(images, composition, weighting)
    files = find_prompt_files(prompts)  # what is told before torch is imported is told at once
    from alacarte.cli.actions.predict import Question
    from alacarte.cli.backbones import Wanted

    wanted = Wanted(backbone, weights_of(weights), device, dtype)
    question = Question(images, files, wanted, print_message)
    verdicts = question.verdicts(composition, weighting, top_k)
    if not as_json:
        for verdict in verdicts:
            _print_verdict(verdict, explain)
        return
    print_json(
        {
            "backbone": question.backbone,
            "prompts": question.prompts,
            "set": question.set_digest,
            "composition": composition,
            "weighting": weighting,
            "answers": [_as_document(verdict, explain) for verdict in verdicts],
        }
    )


def _refuse_misreadings(images: list[Path], composition: Composition, weighting: Weighting) -> None:
    if composition == "vote" and weighting != "none":
        raise typer.BadParameter("votes cannot be weighted", param_hint="--weighting")
    for image in images:
        if image.suffix == SUFFIX:
            raise typer.BadParameter(
                f"{image} is a prompt: quote the pattern after --prompts, or repeat --prompts for each file",
                param_hint="IMAGE",
            )
        image.stat()  # an OSError with its name


def _print_verdict(verdict: "Verdict", explain: bool) -> None:
    rows = [(label, f"{score:.4f}") for label, score in verdict.ranking]
    print_table(("label", "score"), rows, title=verdict.image, numbers=("score",))
    if explain:
        own = [
            (opinion.prompt, f"{opinion.weight:.4f}", opinion.ranking[0][0], f"{opinion.ranking[0][1]:.4f}")
            for opinion in verdict.opinions
        ]
        print_table(("prompt", "weight", "its own label", "score"), own, numbers=("weight", "score"))


def _as_document(verdict: "Verdict", explain: bool) -> dict[str, object]:
    document: dict[str, object] = {"image": verdict.image, "labels": _labels(verdict.ranking)}
    if explain:
        document["members"] = [
            {"prompt": opinion.prompt, "weight": opinion.weight, "labels": _labels(opinion.ranking)}
            for opinion in verdict.opinions
        ]
    return document


def _labels(ranking: "Ranking") -> list[dict[str, object]]:
    return [{"label": label, "score": score} for label, score in ranking]
