"""`alacarte source`: upload, watch, extend, hand on and forget what was lent."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from alacarte.cli.errors import CommandError, TemporaryFailure
from alacarte.cli.local_options import all_pages, named_source, opened, reading, writing
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import Document, document_of, format_value, print_json, print_list, print_object, print_table
from alacarte.cli.registry.uploads import add, extend
from alacarte.cli.registry.users import UserName

OF_SHARDS = ("number", "state", "progress", "generation", "samples", "attempts", "worker", "error", "id")

app = typer.Typer(no_args_is_help=True, help="Sources: upload, watch, extend, hand on and forget what was lent.")
app.command()(add)
app.command()(extend)


@app.command("list")
def list_all(
    task: Annotated[str | None, typer.Option("--task", help="Only those of this task.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List sources."""
    from registry.access.caller import OPERATOR
    from registry.catalog.sources import list_sources
    from registry.catalog.tasks import find_task

    with reading() as session:
        within = None if task is None else find_task(session, task).id
        documents = [
            document_of(found, "id", "name", "task_id", "owner_id", "samples", "shards", "trained", "created_at")
            for found in all_pages(lambda after: list_sources(session, OPERATOR, within, after))
        ]
    print_list("sources", documents, ("name", "samples", "shards", "trained", "id", "created_at"), as_json=as_json)


@app.command()
def show(source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Show a source, its shards, and how far their training is."""
    from registry.access.caller import OPERATOR
    from registry.catalog.source_status import read_source_status

    with reading() as session:
        state = read_source_status(session, OPERATOR, named_source(session, source, task).id)
    document = document_of(
        state, "id", "name", "task_id", "owner_id", "samples", "size_bytes", "labels", "progress", "created_at"
    )
    print_state(document, [document_of(shard, *OF_SHARDS) for shard in state.shards], as_json=as_json)


def print_state(document: Document, shards: Sequence[Document], *, as_json: bool) -> None:
    """A source and its shards."""
    if as_json:
        print_json({**document, "shards": shards})
        return
    print_object(document, as_json=False)
    print_table(OF_SHARDS, ([format_value(shard[name]) for name in OF_SHARDS] for shard in shards))


@app.command()
def samples(source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """List the pictures of a source by their digests."""
    from registry.access.caller import OPERATOR
    from registry.catalog.samples import list_samples

    with reading() as session:
        source_id = named_source(session, source, task).id
        documents = [
            document_of(sample, "digest", "label", "name", "size_bytes", "shard_id", "added_at")
            for sample in all_pages(lambda after: list_samples(session, OPERATOR, source_id, after))
        ]
    print_list("samples", documents, ("label", "name", "digest", "size_bytes"), as_json=as_json)


@app.command()
def cancel(source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Stop the training of a source until it is resumed; what is trained stays."""
    from registry.access.caller import OPERATOR
    from registry.training.control import cancel_training

    with writing() as session:
        found = named_source(session, source, task)
        held = cancel_training(session, OPERATOR, found.id)
        document = {"cancelled": found.name, "id": str(found.id), "shards": held}
    print_object(document, as_json=as_json)


@app.command()
def resume(source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Go on with training that was cancelled, or that is waiting after failures."""
    from registry.access.caller import OPERATOR
    from registry.training.control import resume_training

    with writing() as session:
        found = named_source(session, source, task)
        freed = resume_training(session, OPERATOR, found.id)
        document = {"resumed": found.name, "id": str(found.id), "shards": freed}
    print_object(document, as_json=as_json)


@app.command()
def rename(
    source: SourceName,
    name: Annotated[str, typer.Argument(help="A name that no source of its task has yet.", show_default=False)],
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Give a source another name; its id, grants and prompts stay."""
    from registry.access.caller import OPERATOR
    from registry.catalog.sources import rename_source

    with writing() as session:
        found = named_source(session, source, task)
        before = found.name
        renamed = rename_source(session, OPERATOR, found.id, name)
        document = {"renamed": before, "name": renamed.name, "id": str(renamed.id)}
    print_object(document, as_json=as_json)


@app.command()
def owner(source: SourceName, user: UserName, task: InTask = None, as_json: Json = False) -> None:
    """Hand a source to another owner; whoever had it keeps no right by that."""
    from registry.access.caller import OPERATOR
    from registry.access.users import find_user
    from registry.catalog.sources import transfer_source

    with writing() as session:
        found, who = named_source(session, source, task), find_user(session, OPERATOR, user)
        handed = transfer_source(session, OPERATOR, found.id, who.id)
        document = {"source": handed.name, "id": str(handed.id), "owner": who.name, "owner_id": str(who.id)}
    print_object(document, as_json=as_json)


@app.command()
def forget(
    source: SourceName,
    task: InTask = None,
    shard: Annotated[
        UUID | None, typer.Option("--shard", metavar="ID", help="Only this shard.", show_default=False)
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option("--sample", metavar="DIGEST|NAME", help="Only this picture.", show_default=False),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for what others still hold.")
    ] = 10.0,
    as_json: Json = False,
) -> None:
    """Forget a source, one of its shards or one picture: serving stops at once, then everything is removed.

    The exit code is 0 once the receipt is signed, and 75 while something waits: that is tried again, also without you.
    """
    from alacarte.cli.registry.erasures import print_progress
    from registry.access.caller import OPERATOR
    from registry.catalog.samples import find_sample
    from registry.erasure.request import forget_sample, forget_shard, forget_source
    from registry.erasure.runner import finish_erasure

    if shard is not None and sample is not None:
        raise CommandError("name a shard or a sample, not both")
    with opened() as registry:
        with registry.database.read_transaction() as session:
            source_id = named_source(session, source, task).id
            digest = None if sample is None else find_sample(session, OPERATOR, source_id, sample).digest
        if digest is not None:
            erasure = forget_sample(registry, OPERATOR, source_id, digest)
        elif shard is not None:
            erasure = forget_shard(registry, OPERATOR, source_id, shard)
        else:
            erasure = forget_source(registry, OPERATOR, source_id)
        progress = finish_erasure(registry, erasure.id, timeout)
    print_progress(progress, as_json=as_json)
    if progress.receipt is None:
        waits = "; ".join(progress.waits_for)
        raise TemporaryFailure(f"erasure {progress.id} is not complete; nothing of it is served any more: {waits}")
