"""`alacarte token`: tokens of users."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.cli.backend import with_backend
from alacarte.cli.options import Json, OfUser
from alacarte.cli.output import print_list, print_message, print_object

if TYPE_CHECKING:
    from alacarte.cli.backend import Backend

SECONDS_PER_DAY = 86_400

app = typer.Typer(no_args_is_help=True, help="Tokens: shown once, stored as a hash, revoked at once.")


@app.command()
@with_backend
def issue(
    backend: "Backend",
    user: Annotated[
        str | None, typer.Argument(metavar="USER", help="A user's name or id.", show_default="you, at a service")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What the token is for.")] = "",
    days: Annotated[
        float | None,
        typer.Option("--days", min=0, max=36_500, help="Days until it expires.", show_default="never expires"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Issue a token to a user, and show it this once."""
    issued = backend.create_token(user, note=note, lifetime_s=None if days is None else days * SECONDS_PER_DAY)
    document = {"user": backend.get_user(issued.user_id).name, **issued.model_dump(exclude={"text"})}
    print_object({**document, "token": issued.text}, as_json=as_json)
    print_message("Keep the token: it is not shown again, and only its hash is stored.")


@app.command("list")
@with_backend
def list_all(backend: "Backend", user: OfUser = None, as_json: Json = False) -> None:
    """List tokens by their prefixes."""
    users = {known.id: known.name for known in backend.list_users()}
    documents = [{"user": users.get(token.user_id), **token.model_dump()} for token in backend.list_tokens(user)]
    print_list("tokens", documents, ("user", "prefix", "note", "expires_at", "id"), as_json=as_json)


@app.command()
@with_backend
def revoke(
    backend: "Backend",
    token_id: Annotated[UUID, typer.Argument(metavar="ID", help="The token's id.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Revoke a token, at once."""
    backend.revoke_token(token_id)
    print_object({"revoked": token_id}, as_json=as_json)
