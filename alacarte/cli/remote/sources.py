"""`alacarte remote`: what was lent to the service, as far as you may see it."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import facts_of, print_list, print_object
from alacarte.cli.registry.sources import print_state
from alacarte.cli.remote.client_context import source_of, task_names

if TYPE_CHECKING:
    from alacarte.client import Client


def sources(
    client: "Client",
    task: Annotated[str | None, typer.Option("--task", help="Only those of this task.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List the sources that you may see."""
    names = task_names(client)
    documents = [{**facts_of(one), "task": names.get(one.task_id)} for one in client.list_sources(task)]
    print_list("sources", documents, ("name", "task", "samples", "shards", "trained", "id"), as_json=as_json)


def source(client: "Client", source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Show a source, your rights to it, and how far the training of its shards is."""
    state = client.get_source(source_of(client, source, task))
    document = facts_of(state)
    del document["shards"]
    print_state(document, [facts_of(shard) for shard in state.shards], as_json=as_json)


def samples(
    client: "Client",
    source: SourceName,
    task: InTask = None,
    label: Annotated[str | None, typer.Option("--label", help="Only those of this.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List the pictures of a source by their digests, if you manage it or may have it forgotten."""
    documents = [facts_of(sample) for sample in client.list_samples(source_of(client, source, task), label)]
    print_list("samples", documents, ("label", "name", "digest", "size_bytes"), as_json=as_json)


def cancel(client: "Client", source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Stop the training of a source until it is resumed; what is trained stays."""
    print_object(
        {"cancelled": source, "shards": client.cancel_training(source_of(client, source, task))}, as_json=as_json
    )


def resume(client: "Client", source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Go on with training that was cancelled, or that is waiting after failures."""
    print_object(
        {"resumed": source, "shards": client.resume_training(source_of(client, source, task))}, as_json=as_json
    )
