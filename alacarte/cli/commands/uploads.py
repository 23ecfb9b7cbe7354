"""`alacarte source add`, `extend` and `push`: send pictures, or prompts whose pictures stay where they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import EXIT_INTERRUPTED, fail
from alacarte.cli.model.prompt_files import find_prompt_files
from alacarte.cli.options import InTask, Json, Pictures, Skip, SourceName, Within
from alacarte.cli.output import print_json, print_list, print_message, print_object, print_table
from alacarte.cli.progress import UploadProgress, show_source_training, show_upload

if TYPE_CHECKING:
    from alacarte.api.sources import UploadResponse
    from alacarte.cli.backend import Backend
    from alacarte.client import Client

Shards = Annotated[int, typer.Option("--shards", min=1, help="Number of shards that are trained separately.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all new shards are trained.")]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait.", show_default="no limit"),
]


def add(
    backend: "Backend",
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that no source of the task has yet.", show_default=False)
    ],
    pictures: Pictures,
    task: Annotated[str, typer.Option("--task", help="The task, by name or id.", show_default=False)],
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="The owner, set by an admin.", show_default="you; on this machine: no owner"),
    ] = None,
    shards: Shards = 1,
    within: Within = None,
    skip_unreadable: Skip = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Upload a new source: all of its pictures or nothing."""
    pictures.stat()  # raises OSError with the name
    with _uploading(backend, name) as progress:
        upload = backend.upload_source(
            name,
            pictures,
            task=task,
            owner=owner,
            shards=shards,
            within=within,
            skip_unreadable=skip_unreadable,
            on_progress=progress,
        )
    _finish(backend, upload, wait, timeout, as_json)


def extend(
    backend: "Backend",
    source: SourceName,
    pictures: Pictures,
    task: InTask = None,
    shards: Shards = 1,
    within: Within = None,
    skip_unreadable: Skip = False,
    readmit: Annotated[bool, typer.Option("--readmit", help="Accept pictures again that were forgotten.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Add pictures to a source; they form new shards, and trained shards stay as they are."""
    pictures.stat()  # raises OSError with the name
    found = backend.find_source(source, task)
    with _uploading(backend, found.name) as progress:
        upload = backend.add_samples(
            str(found.id),
            pictures,
            shards=shards,
            readmit=readmit,
            within=within,
            skip_unreadable=skip_unreadable,
            on_progress=progress,
        )
    _finish(backend, upload, wait, timeout, as_json)


def push(
    client: "Client",
    source: SourceName,
    prompts: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER|PATTERN", help="Prompt files.", show_default=False)
    ],
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Send prompt files to a service, each as a shard of the source; no picture is sent.

    A source that does not exist is created if its task is named with --task.
    """
    from alacarte.cli.model.push import find_or_create_source, send_prompts

    files = find_prompt_files(prompts)
    sent = send_prompts(client, find_or_create_source(client, source, task), files)
    documents = [{"file": str(file), **prompt.model_dump()} for file, prompt in zip(files, sent, strict=True)]
    print_list("prompts", documents, ("file", "samples", "labels", "shard_id"), as_json=as_json)


@contextmanager
def _uploading(backend: "Backend", name: str) -> Iterator[UploadProgress]:
    """Show the progress of an upload; on Ctrl-C say whether anything was stored."""
    with show_upload(name, in_bytes=backend.url is not None) as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            if progress.may_be_complete:
                hint = "`alacarte source list` shows whether it was stored"
                fail(f"interrupted after everything may have been sent: {hint}", EXIT_INTERRUPTED)
            fail("interrupted: nothing was stored", EXIT_INTERRUPTED)


def _finish(backend: "Backend", upload: "UploadResponse", wait: bool, timeout: float | None, as_json: bool) -> None:
    if wait:
        try:
            print_message(f"{upload.samples:,} pictures are in source {upload.source_id}; waiting for the training")
            with show_source_training() as progress:
                backend.wait_until_trained(upload.source_id, timeout, progress)
        except KeyboardInterrupt:
            hint = f"`alacarte source show {upload.source_id}` shows its progress"
            fail(f"interrupted: the pictures are stored, and the training continues; {hint}", EXIT_INTERRUPTED)
    elif backend.url is None:
        print_message(f"`alacarte work` trains it; `alacarte source show {upload.source_id}` shows the progress")
    if as_json:
        print_json(upload.model_dump())
        return
    print_object(upload.model_dump(exclude={"skipped_files"}), as_json=False)
    if upload.skipped_files:
        print_table(("left out", "why"), [(refused.name, refused.reason) for refused in upload.skipped_files])
