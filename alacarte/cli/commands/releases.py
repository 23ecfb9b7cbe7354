"""`alacarte release`: named, pinned sets of prompts."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.backend import with_backend
from alacarte.cli.options import Json, OfTask
from alacarte.cli.output import format_value, print_json, print_list, print_object, print_table

if TYPE_CHECKING:
    from alacarte.cli.backend import Backend

ReleaseName = Annotated[str, typer.Argument(metavar="RELEASE", help="A release's name or id.", show_default=False)]
ReleaseTask = Annotated[
    str | None,
    typer.Option("--task", help="The task of the release, by name or id.", show_default="needed for shared names"),
]

app = typer.Typer(no_args_is_help=True, help="Releases: pinned sets of prompts, so that answers do not change.")


@app.command()
@with_backend
def pin(
    backend: "Backend",
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that no release of the task has yet.", show_default=False)
    ],
    task: Annotated[str, typer.Option("--task", help="The task, by name or id.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Pin the prompts that a task has now under a name."""
    print_object(backend.pin_release(task, name).model_dump(), as_json=as_json)


@app.command("list")
@with_backend
def list_all(backend: "Backend", task: OfTask = None, as_json: Json = False) -> None:
    """List releases."""
    tasks = {known.id: known.name for known in backend.list_tasks()}
    releases = backend.list_releases(task)
    documents = [{"task": tasks.get(release.task_id), **release.model_dump()} for release in releases]
    print_list("releases", documents, ("name", "task", "id", "created_at"), as_json=as_json)


@app.command()
@with_backend
def show(backend: "Backend", release: ReleaseName, task: ReleaseTask = None, as_json: Json = False) -> None:
    """Show the prompts of a release, and those that it lost because they were forgotten."""
    found = backend.get_release(release, task)
    document = found.model_dump(exclude={"members", "losses"})
    members = [member.model_dump() for member in found.members]
    losses = [loss.model_dump() for loss in found.losses]
    if as_json:
        print_json({**document, "prompts": members, "losses": losses})
        return
    print_object({**document, "prompts": len(members), "lost": len(losses)}, as_json=False)
    for rows in (members, losses):
        if rows:
            print_table(tuple(rows[0]), ([format_value(value) for value in row.values()] for row in rows))


@app.command()
@with_backend
def remove(backend: "Backend", release: ReleaseName, task: ReleaseTask = None, as_json: Json = False) -> None:
    """Remove a release; its prompts stay."""
    found = backend.get_release(release, task)
    backend.delete_release(found.id)
    print_object({"removed": found.name, "id": found.id}, as_json=as_json)
