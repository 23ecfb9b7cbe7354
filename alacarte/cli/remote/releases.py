"""`alacarte remote releases` and `release`: named, pinned sets of prompts."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.options import Json
from alacarte.cli.output import facts_of, print_list, print_object
from alacarte.cli.registry.releases import OfTask, ReleaseName, print_contents

if TYPE_CHECKING:
    from alacarte.client import Client


def releases(
    client: "Client",
    task: Annotated[str | None, typer.Option("--task", help="Only those of this task.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List releases."""
    documents = [facts_of(one) for one in client.list_releases(task)]
    print_list("releases", documents, ("name", "task_id", "id", "created_at"), as_json=as_json)


def release(client: "Client", release: ReleaseName, task: OfTask, as_json: Json = False) -> None:
    """Show the prompts of a release, and those that it lost because they were forgotten."""
    contents = client.get_release(release, task)
    document = facts_of(contents)
    del document["members"], document["losses"]
    members, losses = map(facts_of, contents.members), map(facts_of, contents.losses)
    print_contents(document, list(members), list(losses), as_json=as_json)


def pin_release(
    client: "Client",
    name: Annotated[str, typer.Argument(help="A name that no release of the task has yet.", show_default=False)],
    task: OfTask,
    as_json: Json = False,
) -> None:
    """Pin the prompts that a task has now under a name."""
    print_object(facts_of(client.pin_release(task, name)), as_json=as_json)


def remove_release(client: "Client", release: ReleaseName, task: OfTask, as_json: Json = False) -> None:
    """Remove a release; its prompts stay."""
    client.delete_release(release, task)
    print_object({"removed": release}, as_json=as_json)
