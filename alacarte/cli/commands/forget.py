"""`alacarte source forget`: forget a source, a shard or one picture, and keep the receipt."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.cli.backend import resolve_source
from alacarte.cli.commands.erasures import print_erasure, write_receipt
from alacarte.cli.errors import EXIT_INTERRUPTED, CommandError, TemporaryFailure, fail
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import print_message

if TYPE_CHECKING:
    from alacarte.api.erasures import ErasureResponse
    from alacarte.cli.backend import Backend


def forget(
    backend: "Backend",
    source: SourceName,
    task: InTask = None,
    shard: Annotated[
        UUID | None, typer.Option("--shard", metavar="ID", help="Only this shard.", show_default=False)
    ] = None,
    sample: Annotated[
        str | None, typer.Option("--sample", metavar="DIGEST|NAME", help="Only this picture.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the receipt.")] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the receipt.")
    ] = 60.0,
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Write the signed receipt there.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Forget a source, one of its shards or one picture: serving stops at once, then everything is removed.

    The exit code is 0 once the receipt is signed, and 75 if it is not signed in time; the erasure continues anyway.
    """
    if shard is not None and sample is not None:
        raise CommandError("name a shard or a sample, not both")
    if receipt is not None and not wait:
        raise CommandError("the receipt is signed at the end: leave out --no-wait, or use `alacarte erasure receipt`")
    erasure = _start_erasure(backend, resolve_source(backend, source, task), shard, sample)
    with _continuing(erasure.id):
        print_message(f"nothing of it is served any more; erasure {erasure.id} removes the rest")
        if wait:
            erasure = _wait(backend, erasure.id, timeout, as_json)
    print_erasure(erasure, as_json=as_json)
    if receipt is not None:
        write_receipt(erasure.receipt, receipt)


def _start_erasure(backend: "Backend", source_id: UUID, shard: UUID | None, sample: str | None) -> "ErasureResponse":
    digest = None if sample is None else backend.find_sample(source_id, sample)
    try:
        if digest is not None:
            return backend.forget_sample(source_id, digest)
        if shard is not None:
            return backend.forget_shard(source_id, shard)
        return backend.forget_source(source_id)
    except KeyboardInterrupt:
        fail("interrupted before the response: `alacarte erasure list` shows whether it has started", EXIT_INTERRUPTED)


def _wait(backend: "Backend", erasure_id: UUID, timeout: float, as_json: bool) -> "ErasureResponse":
    """Wait for the receipt; print the state of the erasure if it is not signed in time."""
    from alacarte._client.errors import WaitTimeout

    try:
        return backend.wait_for_erasure(erasure_id, timeout)
    except WaitTimeout:
        print_erasure(backend.get_erasure(erasure_id), as_json=as_json)
        raise


@contextmanager
def _continuing(erasure_id: UUID) -> Iterator[None]:
    """Say in every error that the erasure continues without this command."""
    from alacarte._client.errors import ClientError

    continues = f"the erasure continues: `alacarte erasure show {erasure_id}` shows its state"
    try:
        yield
    except KeyboardInterrupt:
        fail(f"interrupted; {continues}", EXIT_INTERRUPTED)
    except ClientError as error:
        raise TemporaryFailure(f"{error}; {continues}") from error
