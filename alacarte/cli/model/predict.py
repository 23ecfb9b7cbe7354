"""`alacarte predict`: label pictures with prompt files on this machine, or with a service."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.backend import Token, TokenFile, Url, open_client, resolve_token
from alacarte.cli.errors import CommandError
from alacarte.cli.model.prompt_files import SUFFIX, find_prompt_files
from alacarte.cli.options import Device, Dtype, Json, Weights, parse_weights
from alacarte.cli.output import print_json, print_message, print_table

if TYPE_CHECKING:  # importing them imports torch or httpx
    from torch import Tensor

    from alacarte.cli.backbones import BackboneOptions
    from alacarte.client import Client

# B images, C labels

MAX_TOP_K = 1000
BATCH_IMAGES = 16
BATCH_BYTES = 16 * 2**20  # well below what a service accepts in one request

Answer = dict[str, Any]  # Any: values of JSON
_LOCAL, _REMOTE = "Prompt files", "Service"


def predict(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Pictures.", show_default=False)],
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|FOLDER|PATTERN",
            help="Prompts to use; may be repeated. Quote a pattern: 'prompts/*.safetensors'.",
            show_default=False,
            rich_help_panel=_LOCAL,
        ),
    ] = None,
    composition: Annotated[
        Composition | None,
        typer.Option(help="How prompts are composed.", show_default="average; of a service: the task's"),
    ] = None,
    weighting: Annotated[
        Weighting | None,
        typer.Option(
            help="Whether prompts of similar pictures count more.", show_default="none; of a service: the task's"
        ),
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, max=MAX_TOP_K, help="Number of labels for each picture.")] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Show each part's weight and own answer.")] = False,
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The backbone that the prompts were trained with.",
            show_default="that of the prompts",
            rich_help_panel=_LOCAL,
        ),
    ] = None,
    weights: Weights = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    task: Annotated[
        str | None,
        typer.Option(help="The task, by name or id.", show_default="the only one", rich_help_panel=_REMOTE),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Use only this source; may be repeated.",
            show_default="all you may use",
            rich_help_panel=_REMOTE,
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(help="Use only the prompts of this release.", show_default=False, rich_help_panel=_REMOTE),
    ] = None,
    url: Url = None,
    token: Token = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Label pictures with a set of prompt files, or with the sources that you may use at a service."""
    if composition == "vote" and weighting not in (None, "none"):
        raise typer.BadParameter("votes cannot be weighted", param_hint="--weighting")
    _require_pictures(images)
    if prompts:
        from_service = {"--task": task, "--source": source, "--release": release}
        if given := [name for name, value in from_service.items() if value]:
            raise CommandError(f"{given[0]} is for a service: leave it out, or leave out --prompts")
        files = find_prompt_files(prompts)  # before torch is imported, so that errors come at once
        from alacarte.cli.backbones import BackboneOptions

        options = BackboneOptions(backbone, parse_weights(weights), device, dtype)
        document = _predict_with_files(
            images, files, options, composition or "average", weighting or "none", top_k, explain
        )
    elif url:
        with open_client(url, resolve_token(token, token_file)) as client:
            request = {"task": task, "release": release, "composition": composition, "weighting": weighting}
            document = {"answers": _predict_with_service(client, images, source, request, top_k, explain)}
            if explain and not as_json:
                _name_sources(client, document["answers"])
    else:
        raise CommandError("give prompt files with --prompts, or a service with --url or ALACARTE_URL")
    if as_json:
        print_json(document)
        return
    for answer in document["answers"]:
        _print_answer(answer)


def _require_pictures(images: Sequence[Path]) -> None:
    for image in images:
        if image.suffix == SUFFIX:
            raise typer.BadParameter(
                f"{image} is a prompt: quote the pattern after --prompts, or repeat --prompts for each file",
                param_hint="IMAGE",
            )
        image.stat()  # raises OSError with the name


def _predict_with_files(
    images: Sequence[Path],
    files: Sequence[Path],
    options: "BackboneOptions",
    composition: Composition,
    weighting: Weighting,
    top_k: int,
    explain: bool,
) -> dict[str, Any]:
    import torch

    from alacarte.cli.backbones import describe, find_backbone
    from alacarte.prompting.backbone.preprocess import decode
    from alacarte.prompting.predict import Predictor, set_digest
    from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes, read_prompt

    prompts = {file: read_prompt(file) for file in files}
    names = [str(file) for file in prompts]
    backbone = find_backbone(prompts, options, print_message)
    predictor = Predictor(backbone, {str(file): prompt for file, prompt in prompts.items()})
    answers: list[Answer] = []
    for batch in _split_batches(images):
        pixels = torch.stack([backbone.preprocessing(decode(image)) for image in batch])  # (B, 3, S, S)
        results = predictor.predict(pixels, [names] * len(batch), composition, weighting)
        for image, result in zip(batch, results, strict=True):
            answer: Answer = {"image": str(image), "labels": _rank(result.labels, result.scores, top_k)}
            if explain:
                answer["explain"] = [
                    {
                        "prompt": member.name,
                        "weight": member.weight,
                        "labels": _rank(member.labels, member.scores, top_k),
                    }
                    for member in result.members
                ]
            answers.append(answer)
    return {
        "backbone": describe(backbone),
        "prompts": names,
        "set_digest": set_digest([prompt_digest(prompt_to_bytes(prompt)) for prompt in prompts.values()]),
        "composition": composition,
        "weighting": weighting,
        "answers": answers,
    }


def _predict_with_service(
    client: "Client",
    images: Sequence[Path],
    sources: list[str] | None,
    options: dict[str, Any],  # Any: the service validates them
    top_k: int,
    explain: bool,
) -> list[Answer]:
    answers: list[Answer] = []
    for batch in _split_batches(images):
        results = client.predict_many(batch, sources=sources, top_k=top_k, explain=explain, **options)
        answers += (
            {"image": str(image), **result.model_dump(mode="json")}
            for image, result in zip(batch, results, strict=True)
        )
    return answers


def _split_batches(images: Iterable[Path]) -> Iterator[list[Path]]:
    """Split the pictures, in their order, into batches of limited number and size."""
    batch: list[Path] = []
    size_bytes = 0
    for image in images:
        image_bytes = image.stat().st_size
        if batch and (len(batch) == BATCH_IMAGES or size_bytes + image_bytes > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(image)
        size_bytes += image_bytes
    yield batch


def _rank(labels: Sequence[str], scores: "Tensor", top_k: int) -> list[dict[str, object]]:
    """Return the labels with the best scores (C); of equal scores the first."""
    best, order = scores.sort(descending=True, stable=True)
    ranked = zip(order[:top_k].tolist(), best[:top_k].tolist(), strict=True)
    return [{"label": labels[index], "score": score} for index, score in ranked]


def _name_sources(client: "Client", answers: list[Answer]) -> None:
    """Replace the ids of sources in explanations by their names."""
    names = {str(source.id): source.name for source in client.list_sources()}
    for answer in answers:
        for part in answer["explain"]:
            part["source"] = names.get(part["source"], part["source"])


def _print_answer(answer: Answer) -> None:
    rows = [(scored["label"], f"{scored['score']:.4f}") for scored in answer["labels"]]
    print_table(("label", "score"), rows, title=answer["image"], numbers=("score",))
    if parts := answer.get("explain"):
        kind = "prompt" if "prompt" in parts[0] else "source"
        own = [
            (part[kind], f"{part['weight']:.4f}", best["label"], f"{best['score']:.4f}")
            for part in parts
            for best in part["labels"][:1]
        ]
        print_table((kind, "weight", "its own label", "score"), own, numbers=("weight", "score"))
