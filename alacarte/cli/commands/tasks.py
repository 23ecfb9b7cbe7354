"""`alacarte task`: label spaces, each on one backbone."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.backend import with_backend
from alacarte.cli.errors import CommandError
from alacarte.cli.options import Json
from alacarte.cli.output import print_list, print_object

if TYPE_CHECKING:
    from alacarte.cli.backend import Backend

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's name or id.", show_default=False)]
# The default of the trainer, which imports torch; a test compares them.
DEFAULT_BACKBONE = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"

app = typer.Typer(no_args_is_help=True, help="Tasks: a label space on one backbone, whose sources can be composed.")


@app.command()
@with_backend
def add(
    backend: "Backend",
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that no task has yet.", show_default=False)],
    backbone: Annotated[str, typer.Option("--backbone", help="The timm name of the backbone.")] = DEFAULT_BACKBONE,
    size: Annotated[
        int | None, typer.Option("--size", min=16, help="Side of the input in pixels.", show_default="the backbone's")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label that sources may have; may be repeated.", show_default="any label"),
    ] = None,
    composition: Annotated[
        Composition, typer.Option("--composition", help="How prompts are composed by default.")
    ] = "average",
    weighting: Annotated[Weighting, typer.Option("--weighting", help="How prompts are weighted by default.")] = "none",
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="JSON", help='Training options that differ: {"epochs": 20}.'),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a task."""
    task = backend.create_task(
        name,
        backbone=backbone,
        size=size,
        labels=label or None,
        composition=composition,
        weighting=weighting,
        recipe=_parse_recipe(recipe),
    )
    print_object(task.model_dump(), as_json=as_json)


@app.command("list")
@with_backend
def list_all(backend: "Backend", as_json: Json = False) -> None:
    """List tasks."""
    documents = [task.model_dump() for task in backend.list_tasks()]
    print_list("tasks", documents, ("name", "backbone", "composition", "weighting", "labels", "id"), as_json=as_json)


@app.command()
@with_backend
def show(backend: "Backend", task: TaskName, as_json: Json = False) -> None:
    """Show a task."""
    print_object(backend.get_task(task).model_dump(), as_json=as_json)


@app.command()
@with_backend
def remove(backend: "Backend", task: TaskName, as_json: Json = False) -> None:
    """Remove a task that has no sources and no releases."""
    found = backend.get_task(task)
    backend.delete_task(found.id)
    print_object({"removed": found.name, "id": found.id}, as_json=as_json)


def _parse_recipe(recipe: str | None) -> dict[str, Any] | None:  # Any: parsed JSON, validated by the registry
    if recipe is None:
        return None
    try:
        parsed = json.loads(recipe)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--recipe is not JSON ({error}): write --recipe '{{\"epochs\": 20}}'") from error
    if not isinstance(parsed, dict):
        raise CommandError("--recipe is a JSON object: write --recipe '{\"epochs\": 20}'")
    return parsed
