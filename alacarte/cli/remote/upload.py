"""`alacarte remote upload`, `extend` and `push`: pictures, or the prompts of pictures that stay where they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import EXIT_INTERRUPTED, fail
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import facts_of, print_list, print_message
from alacarte.cli.prompt_files import find_prompt_files
from alacarte.cli.registry.uploads import Shards, Skip, Within, print_admission
from alacarte.cli.remote.client_context import source_of
from alacarte.cli.remote.upload_progress import Sending, watched_sending, watched_training

if TYPE_CHECKING:
    from alacarte.api.sources import UploadResponse
    from alacarte.client import Client

Pictures = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|ARCHIVE",
        help="Class folders of pictures, a zip or tar of them, or a folder with a CSV that names pictures and labels.",
        show_default=False,
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the training until all of it answers.")]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="Wait no longer than that.", show_default="no limit"),
]


def upload(
    client: "Client",
    name: Annotated[str, typer.Argument(help="A name that no source of the task has yet.", show_default=False)],
    pictures: Pictures,
    task: Annotated[str, typer.Option("--task", help="The task, by name or id.", show_default=False)],
    owner: Annotated[
        str | None, typer.Option("--owner", help="Whose it is, said by an admin.", show_default="yours")
    ] = None,
    shards: Shards = 1,
    within: Within = None,
    skip_unreadable: Skip = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Upload a new source: all of its pictures or nothing. A folder is packed on its way."""
    pictures.stat()  # an OSError with its name
    with _sent(name) as sending:
        admission = client.upload_source(
            name,
            pictures,
            task=task,
            owner=owner,
            shards=shards,
            within=within,
            skip_unreadable=skip_unreadable,
            on_progress=sending,
        )
    _finish(client, admission, wait, timeout, as_json)


def extend(
    client: "Client",
    source: SourceName,
    pictures: Pictures,
    task: InTask = None,
    shards: Shards = 1,
    within: Within = None,
    skip_unreadable: Skip = False,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Take pictures again that were forgotten, as the owner wishes it.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Add pictures to a source; they form new shards, and trained ones are left alone."""
    pictures.stat()  # an OSError with its name
    to = source_of(client, source, task)
    with _sent(source) as sending:
        admission = client.add_samples(
            to,
            pictures,
            shards=shards,
            readmit=readmit,
            within=within,
            skip_unreadable=skip_unreadable,
            on_progress=sending,
        )
    _finish(client, admission, wait, timeout, as_json)


def push(
    client: "Client",
    source: SourceName,
    prompts: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER|PATTERN", help="Prompt files.", show_default=False)
    ],
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Send prompts that were trained here, each as a shard of the source; no picture leaves.

    A source that is not there yet is made, if its task is named with --task.
    """
    from alacarte.cli.actions.push import find_or_make, send_prompts

    files = find_prompt_files(prompts)
    sent = send_prompts(client, find_or_make(client, source, task, print_message), files, print_message)
    documents = [{"file": str(file), **facts_of(prompt)} for file, prompt in zip(files, sent, strict=True)]
    print_list("prompts", documents, ("file", "samples", "labels", "shard_id"), as_json=as_json)


@contextmanager
def _sent(name: str) -> "Iterator[Callable[[int, int], None]]":
    """Something that is being sent; Ctrl-C says what became of it."""
    with watched_sending(name) as sending:
        try:
            yield sending
        except KeyboardInterrupt:
            fail(_interrupted(sending), EXIT_INTERRUPTED)


def _interrupted(sending: Sending) -> str:
    if sending.may_be_complete:
        return "interrupted when all may have been sent: `alacarte remote sources` tells whether it was taken"
    return "interrupted: nothing was taken"


def _finish(client: "Client", admission: "UploadResponse", wait: bool, timeout: float | None, as_json: bool) -> None:
    document = facts_of(admission)
    del document["skipped_files"]
    refused = document["skipped"] if as_json else document.pop("skipped")
    assert isinstance(refused, int)
    if wait:
        try:
            print_message(
                f"{admission.samples:,} pictures are in source {admission.source_id}; waiting for its training"
            )
            with watched_training() as progress:
                client.wait_until_trained(admission.source_id, timeout, progress)
        except KeyboardInterrupt:
            how_far = f"`alacarte remote source {admission.source_id}` tells how far it is"
            fail(f"interrupted: the pictures are kept, and training goes on; {how_far}", EXIT_INTERRUPTED)
    print_admission(document, admission.skipped_files, refused, as_json=as_json)
