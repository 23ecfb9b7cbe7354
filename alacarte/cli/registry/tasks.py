"""`alacarte task`: label spaces, each on one backbone."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.errors import CommandError
from alacarte.cli.local_options import all_pages, reading, writing
from alacarte.cli.options import Json
from alacarte.cli.output import document_of, print_list, print_object

if TYPE_CHECKING:
    from registry.db.models.catalog import Task

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's name or id.", show_default=False)]
Size = Annotated[
    int | None, typer.Option("--size", min=16, help="Pixels of a side.", show_default="the backbone's own")
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="A label that sources may have; repeat it.", show_default="whatever they bring"),
]
RecipeText = Annotated[
    str | None,
    typer.Option("--recipe", metavar="JSON", help='What training is told beyond its defaults: {"epochs": 20}.'),
]
# The small one that trains quickly on a CPU; a test compares it with the trainer's.
DEFAULT_BACKBONE = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"

app = typer.Typer(no_args_is_help=True, help="Tasks: a label space on one backbone, whose sources can be composed.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name that no task has yet.", show_default=False)],
    backbone: Annotated[str, typer.Option("--backbone", help="As timm names it.")] = DEFAULT_BACKBONE,
    size: Size = None,
    label: Labels = None,
    composition: Annotated[
        Composition, typer.Option("--composition", help="How prompts are composed, unless asked otherwise.")
    ] = "average",
    weighting: Annotated[
        Weighting, typer.Option("--weighting", help="How prompts are weighted, unless asked otherwise.")
    ] = "none",
    recipe: RecipeText = None,
    as_json: Json = False,
) -> None:
    """Make a task."""
    from registry.access.caller import OPERATOR
    from registry.catalog.tasks import create_task

    told = parsed_recipe(recipe)
    with writing() as session:
        document = _document(
            create_task(
                session,
                OPERATOR,
                name,
                backbone=backbone,
                size=size,
                labels=label or None,
                composition=composition,
                weighting=weighting,
                recipe=told,
            )
        )
    print_object(document, as_json=as_json)


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List tasks."""
    from registry.catalog.tasks import list_tasks

    with reading() as session:
        documents = [_document(task) for task in all_pages(lambda after: list_tasks(session, after))]
    print_list("tasks", documents, ("name", "backbone", "composition", "weighting", "labels", "id"), as_json=as_json)


@app.command()
def show(task: TaskName, as_json: Json = False) -> None:
    """Show all facts of a task."""
    from registry.catalog.tasks import find_task

    with reading() as session:
        document = _document(find_task(session, task))
    print_object(document, as_json=as_json)


@app.command()
def remove(task: TaskName, as_json: Json = False) -> None:
    """Remove a task that has no sources and no releases."""
    from registry.access.caller import OPERATOR
    from registry.catalog.tasks import find_task, remove_task

    with writing() as session:
        found = find_task(session, task)
        document = {"removed": found.name, "id": str(found.id)}
        remove_task(session, OPERATOR, found.id)
    print_object(document, as_json=as_json)


def parsed_recipe(recipe: str | None) -> dict[str, Any] | None:  # Any: whatever JSON has; the registry checks it
    """What `--recipe` says."""
    if recipe is None:
        return None
    try:
        told = json.loads(recipe)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--recipe is no JSON ({error}): write --recipe '{{\"epochs\": 20}}'") from error
    if not isinstance(told, dict):
        raise CommandError("--recipe is a JSON object of names and values: --recipe '{\"epochs\": 20}'")
    return told


def _document(task: "Task") -> dict[str, object]:
    return document_of(
        task, "id", "name", "backbone", "size", "identity", "labels", "composition", "weighting", "recipe", "created_at"
    )
