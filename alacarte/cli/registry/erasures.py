"""`alacarte erasure`: how forgetting stands, its receipts, and checking them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from alacarte.cli.errors import EXIT_FAILURE, CommandError, TemporaryFailure
from alacarte.cli.local_options import all_pages, opened, reading, writing
from alacarte.cli.options import Json
from alacarte.cli.output import (
    Document,
    document_of,
    format_value,
    print_json,
    print_list,
    print_message,
    print_object,
    print_table,
)

if TYPE_CHECKING:
    from registry.erasure.status import ErasureProgress

ErasureId = Annotated[UUID, typer.Argument(metavar="ID", help="The erasure's id.", show_default=False)]
FACTS = ("id", "state", "scope", "source_id", "shard_id", "sample", "requested_by", "requested_at", "completed_at")
LARGEST_RECEIPT = 16 * 2**20  # bytes

app = typer.Typer(no_args_is_help=True, help="Erasures: how forgetting stands, its receipts, and checking them.")


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List erasures."""
    from registry.access.caller import OPERATOR
    from registry.erasure.status import list_erasures

    with reading() as session:
        documents = [
            document_of(found, *FACTS)
            for found in all_pages(lambda after: list_erasures(session, OPERATOR, after=after))
        ]
    print_list("erasures", documents, ("id", "state", "scope", "source_id", "requested_at"), as_json=as_json)


@app.command()
def show(erasure: ErasureId, as_json: Json = False) -> None:
    """Show the steps of an erasure, and what it waits for."""
    from registry.access.caller import OPERATOR
    from registry.erasure.status import show_erasure

    with reading() as session:
        print_progress(show_erasure(session, OPERATOR, erasure), as_json=as_json)


@app.command()
def run(as_json: Json = False) -> None:
    """Carry out every erasure that is not complete, due or not; the exit code is 75 while some still wait."""
    from registry.access.caller import OPERATOR
    from registry.erasure.runner import finish_erasure
    from registry.erasure.status import list_erasures

    with opened() as registry:
        with registry.database.read_transaction() as session:
            found = all_pages(lambda after: list_erasures(session, OPERATOR, after=after))
            waiting = [erasure.id for erasure in found if erasure.state != "complete"]
        ended = [finish_erasure(registry, erasure) for erasure in waiting]
    documents = [{**document_of(one, *FACTS), "waits_for": list(one.waits_for)} for one in ended]
    print_list("erasures", documents, ("id", "state", "scope", "source_id", "waits_for"), as_json=as_json)
    if unfinished := sum(one.receipt is None for one in ended):
        raise TemporaryFailure(
            f"{unfinished} of {len(ended)} erasures are not complete; they are retried in the background"
        )


@app.command()
def receipt(
    erasure: ErasureId,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there.", show_default="stdout")
    ] = None,
) -> None:
    """Print the signed receipt of a complete erasure: JSON, as it is."""
    from registry.access.caller import OPERATOR
    from registry.erasure.status import show_erasure

    with reading() as session:
        progress = show_erasure(session, OPERATOR, erasure)
    if progress.receipt is None:
        raise TemporaryFailure(f"erasure {erasure} is not complete: `alacarte erasure show {erasure}` shows why")
    if out is None:
        print_json(progress.receipt)
    else:
        write_receipt(progress.receipt, out)


@app.command()
def verify(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt's file, or - for stdin.")],
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="PEM", help="The public key to trust.", show_default="those of the registry"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt's signature, and look again in the live stores for what it says is gone."""
    from registry.erasure.verify import verify_receipt

    document = _read(receipt)
    public = None if key is None else key.read_bytes().decode(errors="replace")
    with opened() as registry:
        verdict = verify_receipt(registry, document, public=public)
    checks = [document_of(check, "name", "ok", "detail") for check in verdict.checks]
    if as_json:
        print_json({"holds": verdict.holds, "checks": checks})
    else:
        print_table(("check", "holds", "found"), ([format_value(check[name]) for name in check] for check in checks))
    if not verdict.holds:
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def confirm(erasure: ErasureId, as_json: Json = False) -> None:
    """Confirm by hand that scratch files on a machine that will not come back are gone; the receipt says so."""
    from registry.access.caller import OPERATOR
    from registry.erasure.steps import confirm_scratch

    with writing() as session:
        confirmed = confirm_scratch(session, OPERATOR, erasure)
    print_object({"erasure": str(erasure), "confirmed": confirmed}, as_json=as_json)


@app.command()
def key(as_json: Json = False) -> None:
    """Show the public half of the key that signs receipts here."""
    with opened() as registry:
        document = {"fingerprint": registry.signer.fingerprint, "public": registry.signer.public}
    if as_json:
        print_json(document)
    else:
        sys.stdout.write(document["public"])


def print_progress(progress: "ErasureProgress", *, as_json: bool) -> None:
    """How an erasure stands, and what can be done about it here."""
    steps = [document_of(step, "name", "done_at", "attempts", "found", "error") for step in progress.steps]
    print_steps(document_of(progress, *FACTS), steps, progress.receipt, as_json=as_json)
    if as_json:
        return
    if progress.receipt is None:
        print_message(f"Serving has stopped. `alacarte erasure run` tries again what is left of {progress.id}.")
    else:
        print_message(f"`alacarte erasure receipt {progress.id}` prints the signed receipt.")


def print_steps(document: Document, steps: Sequence[Document], receipt: object, *, as_json: bool) -> None:
    """The facts of an erasure and its steps; its receipt too for a program."""
    if as_json:
        print_json({**document, "steps": steps, "receipt": receipt})
        return
    print_object(document, as_json=False)
    rows = ([format_value(step[name]) for name in ("name", "done_at", "attempts", "found", "error")] for step in steps)
    print_table(("step", "done", "attempts", "found", "waits for"), rows)


def write_receipt(receipt: object, out: Path) -> None:
    """The receipt in a file of its own, as it was signed."""
    out.write_text(json.dumps(receipt, indent=2) + "\n")
    print_message(f"wrote {out}")


def _read(path: Path) -> dict[str, Any]:  # Any: whatever JSON has; it is checked against its signature
    if str(path) == "-":
        text = sys.stdin.read(LARGEST_RECEIPT)
    else:
        with path.open("rb") as file:
            text = file.read(LARGEST_RECEIPT).decode(errors="replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise CommandError(f"{path} is no receipt: a receipt is a JSON object")
    return document
