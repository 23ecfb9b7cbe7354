"""`alacarte remote predict`: what the sources that you may use say about pictures."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.options import Json
from alacarte.cli.output import facts_of, print_json, print_table

if TYPE_CHECKING:
    from alacarte.client import Client, Prediction

# Well below what a service takes in one request.
MOST_PICTURES = 16
MOST_BYTES = 16 * 2**20
MOST_LABELS = 1000


def predict(
    client: "Client",
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="Pictures.", show_default=False)],
    task: Annotated[
        str | None, typer.Option("--task", help="By name or id.", show_default="the only one there is")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="NAME", help="Ask only this; repeat it.", show_default="all you may use"),
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", help="Ask only what this pins.", show_default=False)
    ] = None,
    composition: Annotated[
        Composition | None,
        typer.Option("--composition", help="How answers become one.", show_default="the task's"),
    ] = None,
    weighting: Annotated[
        Weighting | None,
        typer.Option(
            "--weighting", help="Whether prompts that know such pictures count more.", show_default="the task's"
        ),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", min=1, max=MOST_LABELS, help="Labels to show of each picture.")] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Show each source's weight and own answer too.")] = False,
    as_json: Json = False,
) -> None:
    """Label pictures by the sources that you may use."""
    answers: list[tuple[Path, Prediction]] = []
    for batch in _batches(images):
        found = client.predict_many(
            batch,
            sources=source,
            task=task,
            release=release,
            composition=composition,
            weighting=weighting,
            top_k=top_k,
            explain=explain,
        )
        answers += zip(batch, found, strict=True)
    if as_json:
        print_json({"answers": [{"image": str(image), **facts_of(answer)} for image, answer in answers]})
        return
    names = {one.id: one.name for one in client.list_sources()} if explain else {}
    for image, answer in answers:
        _print_answer(image, answer, names)


def _batches(images: Iterable[Path]) -> Iterator[list[Path]]:
    """The pictures in their order, as many at once as one request may carry."""
    batch: list[Path] = []
    size_bytes = 0
    for image in images:
        image_bytes = image.stat().st_size
        if batch and (len(batch) == MOST_PICTURES or size_bytes + image_bytes > MOST_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(image)
        size_bytes += image_bytes
    yield batch


def _print_answer(image: Path, answer: "Prediction", names: dict[UUID, str]) -> None:
    rows = [(scored.label, f"{scored.score:.4f}") for scored in answer.labels]
    print_table(("label", "score"), rows, title=str(image), numbers=("score",))
    if answer.explain is not None:
        own = [
            (names.get(said.source, str(said.source)), f"{said.weight:.4f}", said.labels[0].label, f"{best.score:.4f}")
            for said in answer.explain
            for best in said.labels[:1]
        ]
        print_table(("source", "weight", "its own label", "score"), own, numbers=("weight", "score"))
