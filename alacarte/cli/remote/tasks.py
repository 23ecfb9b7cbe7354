"""`alacarte remote tasks` and `task`: label spaces, each on one backbone."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.options import Json
from alacarte.cli.output import facts_of, print_list, print_object
from alacarte.cli.registry.tasks import DEFAULT_BACKBONE, Labels, RecipeText, Size, TaskName, parsed_recipe

if TYPE_CHECKING:
    from alacarte.client import Client


def tasks(client: "Client", as_json: Json = False) -> None:
    """List tasks."""
    documents = [facts_of(task) for task in client.list_tasks()]
    print_list("tasks", documents, ("name", "backbone", "composition", "weighting", "labels", "id"), as_json=as_json)


def task(client: "Client", task: TaskName, as_json: Json = False) -> None:
    """Show all facts of a task."""
    print_object(facts_of(client.get_task(task)), as_json=as_json)


def create_task(
    client: "Client",
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
    made = client.create_task(
        name,
        backbone=backbone,
        size=size,
        labels=label or None,
        composition=composition,
        weighting=weighting,
        recipe=parsed_recipe(recipe),
    )
    print_object(facts_of(made), as_json=as_json)


def remove_task(client: "Client", task: TaskName, as_json: Json = False) -> None:
    """Remove a task that has no sources and no releases."""
    client.delete_task(task)
    print_object({"removed": task}, as_json=as_json)
