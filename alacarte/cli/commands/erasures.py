"""`alacarte erasure`: the state of erasures, their receipts, and the verification of receipts."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from alacarte.cli.backend import local_only, with_backend
from alacarte.cli.errors import EXIT_FAILURE, CommandError, TemporaryFailure
from alacarte.cli.local.registry import open_local_registry
from alacarte.cli.options import Json
from alacarte.cli.output import format_value, print_json, print_list, print_message, print_object, print_table
from registry.ids import parse_id

if TYPE_CHECKING:
    from alacarte.api.erasures import ErasureResponse
    from alacarte.cli.backend import Backend

ErasureId = Annotated[UUID, typer.Argument(metavar="ID", help="The erasure's id.", show_default=False)]
STEP_COLUMNS = ("name", "done_at", "attempts", "found", "error")
MAX_RECEIPT_BYTES = 16 * 2**20

app = typer.Typer(no_args_is_help=True, help="Erasures: their state, their receipts, and verifying receipts.")


@app.command("list")
@with_backend
def list_all(backend: "Backend", as_json: Json = False) -> None:
    """List the erasures that you requested, or all for admins."""
    sources = {source.id: source.name for source in backend.list_sources()}
    documents = [
        {**erasure.model_dump(exclude={"steps", "receipt"}), "source": sources.get(erasure.source_id)}
        for erasure in backend.list_erasures()
    ]
    print_list("erasures", documents, ("id", "state", "scope", "source_id", "requested_at"), as_json=as_json)


@app.command()
@with_backend
def show(backend: "Backend", erasure: ErasureId, as_json: Json = False) -> None:
    """Show the steps of an erasure, and what it waits for."""
    print_erasure(backend.get_erasure(erasure), as_json=as_json)


@app.command()
@with_backend
def receipt(
    backend: "Backend",
    erasure: ErasureId,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there.", show_default="stdout")
    ] = None,
) -> None:
    """Print the signed receipt of a complete erasure as JSON."""
    found = backend.get_erasure(erasure)
    if found.receipt is None:
        raise TemporaryFailure(f"erasure {erasure} has no receipt yet: {found.open_steps}")
    if out is None:
        print_json(found.receipt)
    else:
        write_receipt(found.receipt, out)


@app.command()
@with_backend
def verify(
    backend: "Backend",
    receipt: Annotated[
        str, typer.Argument(metavar="ID|FILE", help="An erasure's id; on this machine also a receipt's file or -.")
    ],
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="PEM", help="The public key to trust.", show_default="those of the registry"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a receipt: its signature, and that what it states is still true in the live stores."""
    erasure_id = parse_id(receipt)
    if key is None and erasure_id is not None:
        verification = backend.verify_receipt(erasure_id)
    elif backend.url is None:
        public_key = None if key is None else key.read_bytes().decode(errors="replace")
        verification = backend.verify_receipt_document(_read_receipt(Path(receipt)), public_key)
    else:
        raise CommandError("a service verifies receipts by the erasure's id: give the id, and leave out --key")
    if as_json:
        print_json(verification.model_dump())
    else:
        rows = [(check.name, format_value(check.ok), check.detail) for check in verification.checks]
        print_table(("check", "holds", "found"), rows)
    if not verification.holds:
        raise typer.Exit(EXIT_FAILURE)


@app.command()
@local_only
def run(as_json: Json = False) -> None:
    """Carry out every erasure that is not complete, due or not; the exit code is 75 while some still wait."""
    from alacarte.cli.local.backend import LocalBackend
    from registry.erasure.runner import finish_erasure

    with open_local_registry() as registry:
        backend = LocalBackend(registry)
        waiting = [erasure.id for erasure in backend.list_erasures() if erasure.state != "complete"]
        for erasure_id in waiting:
            finish_erasure(registry, erasure_id)
        tried = [backend.get_erasure(erasure_id) for erasure_id in waiting]
    documents = [{**one.model_dump(exclude={"steps", "receipt"}), "waits_for": one.open_steps} for one in tried]
    print_list("erasures", documents, ("id", "state", "scope", "source_id", "waits_for"), as_json=as_json)
    if unfinished := sum(erasure.receipt is None for erasure in tried):
        raise TemporaryFailure(f"{unfinished} of {len(tried)} erasures are not complete; they are retried later")


@app.command()
@local_only
def confirm(erasure: ErasureId, as_json: Json = False) -> None:
    """Confirm that the scratch files of a machine that is lost for good are gone; the receipt records it."""
    from registry.access.caller import OPERATOR
    from registry.erasure.steps import confirm_scratch

    with open_local_registry() as registry, registry.database.write_transaction() as session:
        confirmed = confirm_scratch(session, OPERATOR, erasure)
    print_object({"erasure": erasure, "confirmed": confirmed}, as_json=as_json)


@app.command()
@local_only
def key(as_json: Json = False) -> None:
    """Show the public key that verifies the receipts signed here."""
    with open_local_registry() as registry:
        document = {"fingerprint": registry.signer.fingerprint, "public": registry.signer.public}
    if as_json:
        print_json(document)
    else:
        sys.stdout.write(document["public"])


def print_erasure(erasure: "ErasureResponse", *, as_json: bool) -> None:
    """Print an erasure and its steps; its receipt only in JSON."""
    if as_json:
        print_json(erasure.model_dump())
        return
    print_object(erasure.model_dump(exclude={"steps", "receipt"}), as_json=False)
    rows = ([format_value(getattr(step, name)) for name in STEP_COLUMNS] for step in erasure.steps)
    print_table(("step", "done", "attempts", "found", "waits for"), rows)
    if erasure.receipt is not None:
        print_message(f"`alacarte erasure receipt {erasure.id}` prints the signed receipt.")


def write_receipt(receipt: object, out: Path) -> None:
    """Write the receipt to a file as it was signed."""
    out.write_text(json.dumps(receipt, indent=2) + "\n")
    print_message(f"wrote {out}")


def _read_receipt(path: Path) -> dict[str, Any]:  # Any: parsed JSON, verified by its signature
    if str(path) == "-":
        text = sys.stdin.read(MAX_RECEIPT_BYTES)
    else:
        with path.open("rb") as file:
            text = file.read(MAX_RECEIPT_BYTES).decode(errors="replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise CommandError(f"{path} is not a receipt: a receipt is a JSON object")
    return document
