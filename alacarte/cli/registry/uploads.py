"""Uploads by `alacarte source`: a new source, or more pictures for one, all of them or nothing."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from alacarte.cli.local_options import named_source, opened
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import Document, plain, print_json, print_message, print_object, print_table

if TYPE_CHECKING:
    from registry.ingest.upload import IngestResult

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
    bool,
    typer.Option("--skip-unreadable", help="Leave out what cannot be taken, and say what, instead of refusing."),
]

SECONDS_BETWEEN_LINES = 2.0


class Refused(Protocol):
    """A file that was left out, whoever tells of it."""

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str: ...


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
    from registry.access.caller import OPERATOR
    from registry.access.users import find_user
    from registry.catalog.tasks import find_task
    from registry.ingest.upload import upload_source

    with opened() as registry:
        with registry.database.read_transaction() as session:
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
    _tell(admission, as_json)


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
    from registry.access.caller import OPERATOR
    from registry.ingest.upload import add_samples

    with opened() as registry:
        with registry.database.read_transaction() as session:
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
    _tell(admission, as_json)


def _report_of_progress() -> Callable[[int, int], None]:
    """A line now and then, for whoever waits long enough to wonder."""
    spoke = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > SECONDS_BETWEEN_LINES:
            spoke = time.monotonic()
            print_message(f"{done:,} of {total:,} pictures stored")

    return report


def print_admission(
    document: Document, refusals: Sequence[Refused], refused: int | None = None, *, as_json: bool
) -> None:
    """What was taken in, and what was left out of it; of `refused` files in all, if these are not all of them."""
    if as_json:
        print_json({**document, "skipped_files": [{"name": one.name, "reason": one.reason} for one in refusals]})
        return
    print_object({**document, "left out": len(refusals) if refused is None else refused}, as_json=False)
    if refusals:
        print_table(("left out", "why"), [(one.name, one.reason) for one in refusals])


def _tell(admission: "IngestResult", as_json: bool) -> None:
    document = {
        "source": plain(admission.source_id),
        "samples": admission.samples,
        "size_bytes": admission.size_bytes,
        "shards": plain(admission.shards),
    }
    print_admission(document, admission.skipped, as_json=as_json)
