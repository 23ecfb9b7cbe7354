"""`alacarte source`: upload, watch, extend and forget what was lent."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.cli.documents import document_of, plain, print_list, print_one, told
from alacarte.cli.faults import CommandRefused
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.registry_door import all_pages, named_source, opened, reading, writing
from alacarte.cli.screen import print_json, print_table, say

if TYPE_CHECKING:
    from registry.uploading.admit import Admission

Pictures = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|ARCHIVE|CSV",
        help="Class folders of pictures, a zip or tar of them, or a CSV that names pictures and labels.",
        show_default=False,
    ),
]
Shards = Annotated[int, typer.Option("--shards", min=1, help="Parts that the pictures are trained in.")]
Within = Annotated[str | None, typer.Option("--within", metavar="SUBFOLDER", help="Read only this subfolder.")]
Skip = Annotated[
    bool, typer.Option("--skip-unreadable", help="Leave out what cannot be taken, and say what, instead of refusing.")
]

SECONDS_BETWEEN_LINES = 2.0

app = typer.Typer(no_args_is_help=True, help="Sources: upload, watch, extend and forget what was lent.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name that no source of the task has yet.", show_default=False)],
    pictures: Pictures,
    task: Annotated[str, typer.Option("--task", help="The task, by name or id.", show_default=False)],
    owner: Annotated[str | None, typer.Option("--owner", help="Whose it is.", show_default="nobody's")] = None,
    shards: Shards = 1,
    within: Within = None,
    skip_unreadable: Skip = False,
    as_json: Json = False,
) -> None:
    """Upload a new source: all of its pictures or nothing."""
    from registry.callers import OPERATOR
    from registry.tasks import find_task
    from registry.uploading.upload import upload_source
    from registry.users import find_user

    with opened() as registry:
        with registry.database.reading() as session:
            task_id = find_task(session, task).id
            owner_id = None if owner is None else find_user(session, OPERATOR, owner).id
        admission = upload_source(
            registry,
            OPERATOR,
            task_id,
            name,
            pictures,
            shards=shards,
            owner_id=owner_id,
            within=within,
            unreadable="skip" if skip_unreadable else "refuse",
            report=_report_of_progress(),
        )
    _print_admission(admission, as_json=as_json)


@app.command()
def extend(
    source: SourceName,
    pictures: Pictures,
    task: InTask = None,
    shards: Shards = 1,
    within: Within = None,
    skip_unreadable: Skip = False,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Take pictures again that were forgotten, as the owner wishes it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add pictures to a source; they form new shards, and trained ones are left alone."""
    from registry.callers import OPERATOR
    from registry.uploading.upload import add_samples

    with opened() as registry:
        with registry.database.reading() as session:
            source_id = named_source(session, source, task).id
        admission = add_samples(
            registry,
            OPERATOR,
            source_id,
            pictures,
            shards=shards,
            within=within,
            unreadable="skip" if skip_unreadable else "refuse",
            readmit=readmit,
            report=_report_of_progress(),
        )
    _print_admission(admission, as_json=as_json)


@app.command("list")
def list_all(
    task: Annotated[str | None, typer.Option("--task", help="Only those of this task.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List sources."""
    from registry.callers import OPERATOR
    from registry.sources import list_sources
    from registry.tasks import find_task

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
    from registry.callers import OPERATOR
    from registry.source_states import show_source

    with reading() as session:
        state = show_source(session, OPERATOR, named_source(session, source, task).id)
    document = document_of(
        state, "id", "name", "task_id", "owner_id", "samples", "size_bytes", "labels", "progress", "created_at"
    )
    columns = ("number", "state", "progress", "generation", "samples", "attempts", "worker", "error", "id")
    shards = [document_of(shard, *columns) for shard in state.shards]
    if as_json:
        print_json({**document, "shards": shards})
        return
    print_one(document, as_json=False)
    print_table(columns, ([told(shard[name]) for name in columns] for shard in shards))


@app.command()
def samples(source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """List the pictures of a source by their digests."""
    from registry.callers import OPERATOR
    from registry.samples import list_samples

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
    from registry.callers import OPERATOR
    from registry.training import cancel_training

    with writing() as session:
        found = named_source(session, source, task)
        held = cancel_training(session, OPERATOR, found.id)
        document = {"cancelled": found.name, "id": str(found.id), "shards": held}
    print_one(document, as_json=as_json)


@app.command()
def resume(source: SourceName, task: InTask = None, as_json: Json = False) -> None:
    """Go on with training that was cancelled, or that is waiting after failures."""
    from registry.callers import OPERATOR
    from registry.training import resume_training

    with writing() as session:
        found = named_source(session, source, task)
        freed = resume_training(session, OPERATOR, found.id)
        document = {"resumed": found.name, "id": str(found.id), "shards": freed}
    print_one(document, as_json=as_json)


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
    as_json: Json = False,
) -> None:
    """Forget a source, one of its shards or one picture: serving stops at once, then everything is removed."""
    from alacarte.cli.erasures import print_erasure
    from registry.callers import OPERATOR
    from registry.erasures.begin import forget_sample, forget_shard, forget_source
    from registry.erasures.running import finish_erasure
    from registry.samples import find_sample

    if shard is not None and sample is not None:
        raise CommandRefused("name a shard or a sample, not both")
    with opened() as registry:
        with registry.database.reading() as session:
            source_id = named_source(session, source, task).id
            digest = None if sample is None else find_sample(session, OPERATOR, source_id, sample).digest
        if digest is not None:
            erasure = forget_sample(registry, OPERATOR, source_id, digest)
        elif shard is not None:
            erasure = forget_shard(registry, OPERATOR, source_id, shard)
        else:
            erasure = forget_source(registry, OPERATOR, source_id)
        finish_erasure(registry, erasure.id)
        print_erasure(registry, erasure.id, as_json=as_json)


def _report_of_progress() -> Callable[[int, int], None]:
    """A line now and then, for whoever waits long enough to wonder."""
    spoke = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > SECONDS_BETWEEN_LINES:
            spoke = time.monotonic()
            say(f"{done:,} of {total:,} pictures stored")

    return report


def _print_admission(admission: "Admission", *, as_json: bool) -> None:
    refusals = [{"name": refusal.name, "reason": refusal.reason} for refusal in admission.refusals]
    document = {
        "source": plain(admission.source_id),
        "samples": admission.samples,
        "size_bytes": admission.size_bytes,
        "shards": plain(admission.shards),
    }
    if as_json:
        print_json({**document, "refusals": refusals})
        return
    print_one({**document, "left out": len(refusals)}, as_json=False)
    if refusals:
        print_table(("left out", "why"), [(refusal["name"], refusal["reason"]) for refusal in refusals])
