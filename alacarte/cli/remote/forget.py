"""`alacarte remote forget` and `erasure`: a source, a shard or one picture is forgotten, and the receipt is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, CommandError, TemporaryFailure, fail
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import document_of, facts_of, format_value, print_json, print_list, print_message, print_table
from alacarte.cli.registry.erasures import FACTS, ErasureId, print_steps, write_receipt
from alacarte.cli.remote.client_context import source_of

if TYPE_CHECKING:
    from alacarte.api.erasures import ErasureResponse
    from alacarte.client import Client

ReceiptFile = Annotated[
    Path | None, typer.Option("--receipt", metavar="FILE", help="Write the signed receipt there.", show_default=False)
]


def forget(
    client: "Client",
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
        float | None,
        typer.Option("--timeout", min=0, metavar="SECONDS", help="Wait no longer than that.", show_default="no limit"),
    ] = None,
    receipt: ReceiptFile = None,
    as_json: Json = False,
) -> None:
    """Forget a source, one of its shards or one picture: it answers no more at once, then everything is removed.

    With --wait the exit code is 0 once the receipt is there, and 75 if it is not in time; the erasure goes on anyway.
    """
    if shard is not None and sample is not None:
        raise CommandError("name a shard or a sample, not both")
    if receipt is not None and not wait:
        raise CommandError("the receipt comes at the end: leave out --no-wait, or ask for it with `remote erasure`")
    erasure = _begin(client, source_of(client, source, task), shard, sample)
    with _going_on(erasure.id):
        print_message(f"nothing of it is served any more; erasure {erasure.id} removes the rest")
        if wait:
            erasure = client.wait_for_erasure(erasure.id, timeout)
    _print_erasure(erasure, as_json)
    if receipt is not None:
        write_receipt(erasure.receipt, receipt)


def erasures(client: "Client", as_json: Json = False) -> None:
    """List what you asked to be forgotten, or all for admins."""
    documents = [document_of(one, *FACTS) for one in client.list_erasures()]
    print_list("erasures", documents, ("id", "state", "scope", "source_id", "requested_at"), as_json=as_json)


def erasure(client: "Client", erasure: ErasureId, receipt: ReceiptFile = None, as_json: Json = False) -> None:
    """Show the steps of an erasure and what it waits for; keep its receipt."""
    found = client.get_erasure(erasure)
    _print_erasure(found, as_json)
    if receipt is not None:
        if found.receipt is None:
            raise TemporaryFailure(f"erasure {erasure} is not complete, so there is no receipt yet")
        write_receipt(found.receipt, receipt)


def verify(client: "Client", erasure: ErasureId, as_json: Json = False) -> None:
    """Check the receipt of an erasure, and have the service look again for what it says is gone."""
    verdict = client.verify_receipt(erasure)
    if as_json:
        print_json(facts_of(verdict))
    else:
        rows = ((check.name, format_value(check.ok), check.detail) for check in verdict.checks)
        print_table(("check", "holds", "found"), rows)
    if not verdict.holds:
        raise typer.Exit(EXIT_FAILURE)


def _begin(client: "Client", source: str | UUID, shard: UUID | None, sample: str | None) -> "ErasureResponse":
    digest = None if sample is None else client.find_sample(source, sample)
    try:
        if digest is not None:
            return client.forget_sample(source, digest)
        if shard is not None:
            return client.forget_shard(source, shard)
        return client.forget_source(source)
    except KeyboardInterrupt:
        fail("interrupted before the answer: `alacarte remote erasures` tells whether it has begun", EXIT_INTERRUPTED)


@contextmanager
def _going_on(erasure: UUID) -> Iterator[None]:
    """However waiting ends, the erasure does not end with it."""
    from alacarte.client import ClientError

    goes_on = f"the erasure goes on: `alacarte remote erasure {erasure}` tells how it stands"
    try:
        yield
    except KeyboardInterrupt:
        fail(f"interrupted; {goes_on}", EXIT_INTERRUPTED)
    except ClientError as error:
        raise TemporaryFailure(f"{error}; {goes_on}") from error


def _print_erasure(erasure: "ErasureResponse", as_json: bool) -> None:
    print_steps(
        document_of(erasure, *FACTS), [facts_of(step) for step in erasure.steps], erasure.receipt, as_json=as_json
    )
