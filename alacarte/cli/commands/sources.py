"""`alacarte source`: list, show and change sources."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.backend import local_only, open_local_backend, resolve_source, with_backend, with_client
from alacarte.cli.commands.forget import forget
from alacarte.cli.commands.uploads import add, extend, push
from alacarte.cli.options import InTask, Json, OfTask, SourceName, UserName
from alacarte.cli.output import format_value, print_json, print_list, print_object, print_table

if TYPE_CHECKING:
    from alacarte.cli.backend import Backend

SHARD_COLUMNS = ("number", "state", "progress", "generation", "samples", "attempts", "worker", "error", "id")

app = typer.Typer(no_args_is_help=True, help="Sources: upload, follow the training, extend, hand over and forget.")
app.command()(with_backend(add))
app.command()(with_backend(extend))
app.command()(with_client(push))
app.command()(with_backend(forget))


@app.command("list")
@with_backend
def list_all(backend: "Backend", task: OfTask = None, as_json: Json = False) -> None:
    """List the sources that you may see."""
    tasks = {known.id: known.name for known in backend.list_tasks()}
    users = {known.id: known.name for known in backend.list_users()}
    documents = [
        {
            **source.model_dump(),
            "task": tasks.get(source.task_id),
            "owner": None if source.owner_id is None else users.get(source.owner_id),
        }
        for source in backend.list_sources(task)
    ]
    columns = ("name", "task", "owner", "samples", "shards", "trained", "id")
    print_list("sources", documents, columns, as_json=as_json)


@app.command()
@with_backend
def show(backend: "Backend", source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Show a source, your rights to it, and the training of its shards."""
    state = backend.get_source(resolve_source(backend, source, task))
    document = state.model_dump(exclude={"shards"})
    shards = [shard.model_dump() for shard in state.shards]
    if as_json:
        print_json({**document, "shards": shards})
        return
    print_object(document, as_json=False)
    print_table(SHARD_COLUMNS, ([format_value(shard[name]) for name in SHARD_COLUMNS] for shard in shards))


@app.command()
@with_backend
def samples(
    backend: "Backend",
    source: SourceName,
    task: InTask = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Only pictures with this label.", show_default="all")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the pictures of a source by their digests, if you may manage or forget it."""
    samples = backend.list_samples(resolve_source(backend, source, task), label)
    documents = [sample.model_dump() for sample in samples]
    print_list("samples", documents, ("label", "name", "digest", "size_bytes"), as_json=as_json)


@app.command()
@with_backend
def cancel(backend: "Backend", source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Stop the training of a source until it is resumed; trained shards stay."""
    found = backend.find_source(source, task)
    shards = backend.cancel_training(found.id)
    print_object({"cancelled": found.name, "id": found.id, "shards": shards}, as_json=as_json)


@app.command()
@with_backend
def resume(backend: "Backend", source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Resume training that was cancelled, or that waits after failures."""
    found = backend.find_source(source, task)
    shards = backend.resume_training(found.id)
    print_object({"resumed": found.name, "id": found.id, "shards": shards}, as_json=as_json)


@app.command()
@local_only
def rename(
    source: SourceName,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that no source of its task has yet.", show_default=False)
    ],
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Rename a source; its id, grants and prompts stay."""
    with open_local_backend() as backend:
        found = backend.find_source(source, task)
        renamed = backend.rename_source(found.id, name)
    print_object({"renamed": found.name, "name": renamed.name, "id": renamed.id}, as_json=as_json)


@app.command()
@local_only
def owner(source: SourceName, user: UserName, task: InTask = None, as_json: Json = False) -> None:
    """Give a source to another owner; the former owner loses the rights of an owner."""
    with open_local_backend() as backend:
        to = backend.get_user(user)
        changed = backend.transfer_source(backend.find_source(source, task).id, str(to.id))
    document = {"source": changed.name, "id": changed.id, "owner": to.name, "owner_id": to.id}
    print_object(document, as_json=as_json)
