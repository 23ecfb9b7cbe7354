"""`alacarte release`: named, pinned sets of prompts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.local_options import all_pages, reading, writing
from alacarte.cli.options import Json
from alacarte.cli.output import Document, document_of, format_value, print_json, print_list, print_object, print_table

if TYPE_CHECKING:
    from registry.db.models.prompts import Release

OfTask = Annotated[str, typer.Option("--task", help="The task, by name or id.", show_default=False)]
ReleaseName = Annotated[str, typer.Argument(metavar="RELEASE", help="A release's name or id.", show_default=False)]

app = typer.Typer(no_args_is_help=True, help="Releases: pinned sets of prompts, so that answers can stay the same.")


@app.command()
def pin(
    name: Annotated[str, typer.Argument(help="A name that no release of the task has yet.", show_default=False)],
    task: OfTask,
    as_json: Json = False,
) -> None:
    """Pin the prompts that a task has now under a name."""
    from registry.access.caller import OPERATOR
    from registry.catalog.releases import pin_release
    from registry.catalog.tasks import find_task

    with writing() as session:
        document = _document(pin_release(session, OPERATOR, find_task(session, task).id, name))
    print_object(document, as_json=as_json)


@app.command("list")
def list_all(
    task: Annotated[str | None, typer.Option("--task", help="Only those of this task.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List releases."""
    from registry.catalog.releases import list_releases
    from registry.catalog.tasks import find_task

    with reading() as session:
        within = None if task is None else find_task(session, task).id
        documents = [_document(found) for found in all_pages(lambda after: list_releases(session, within, after))]
    print_list("releases", documents, ("name", "task_id", "id", "created_at"), as_json=as_json)


@app.command()
def show(release: ReleaseName, task: OfTask, as_json: Json = False) -> None:
    """Show the prompts of a release, and those that it lost because they were forgotten."""
    from registry.access.caller import OPERATOR
    from registry.catalog.releases import find_release, read_release
    from registry.catalog.tasks import find_task

    with reading() as session:
        found = find_release(session, find_task(session, task).id, release)
        contents = read_release(session, OPERATOR, found.id)
        document = _document(found)
        members = [document_of(member, "prompt_id", "source_id", "shard_id", "digest") for member in contents.members]
        losses = [
            document_of(loss, "prompt_id", "source_id", "shard_id", "erasure_id", "lost_at") for loss in contents.losses
        ]
    print_contents(document, members, losses, as_json=as_json)


@app.command()
def remove(release: ReleaseName, task: OfTask, as_json: Json = False) -> None:
    """Remove a release; its prompts stay."""
    from registry.access.caller import OPERATOR
    from registry.catalog.releases import find_release, remove_release
    from registry.catalog.tasks import find_task

    with writing() as session:
        found = find_release(session, find_task(session, task).id, release)
        document = {"removed": found.name, "id": str(found.id)}
        remove_release(session, OPERATOR, found.id)
    print_object(document, as_json=as_json)


def print_contents(
    document: Document, members: Sequence[Document], losses: Sequence[Document], *, as_json: bool
) -> None:
    """A release with the prompts that it pins, and those that it lost."""
    if as_json:
        print_json({**document, "prompts": members, "losses": losses})
        return
    print_object({**document, "prompts": len(members), "lost": len(losses)}, as_json=False)
    for rows in (members, losses):
        if rows:
            print_table(tuple(rows[0]), ([format_value(value) for value in row.values()] for row in rows))


def _document(release: "Release") -> dict[str, object]:
    return document_of(release, "id", "name", "task_id", "created_by", "created_at")
