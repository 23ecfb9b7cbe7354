"""`alacarte remote tokens`: how users prove who they are."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.cli.options import Json
from alacarte.cli.output import facts_of, print_list, print_message, print_object

if TYPE_CHECKING:
    from alacarte.client import Client

SECONDS_A_DAY = 86_400


def tokens(
    client: "Client",
    user: Annotated[
        str | None, typer.Option("--user", help="Only those of this user.", show_default="all you may see")
    ] = None,
    as_json: Json = False,
) -> None:
    """List tokens by their prefixes."""
    users = {one.id: one.name for one in client.list_users()}
    documents = [{"user": users.get(one.user_id), **facts_of(one)} for one in client.list_tokens(user)]
    print_list("tokens", documents, ("user", "prefix", "note", "expires_at", "id"), as_json=as_json)


def issue_token(
    client: "Client",
    user: Annotated[str | None, typer.Argument(metavar="USER", help="A user's name or id.", show_default="you")] = None,
    note: Annotated[str, typer.Option("--note", help="What it is for, to tell it from others.")] = "",
    days: Annotated[
        float | None,
        typer.Option("--days", min=0, max=36_500, help="How long it is good for.", show_default="until revoked"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Issue a token to a user, and show it this once."""
    issued = client.create_token(user, note=note, lifetime_s=None if days is None else days * SECONDS_A_DAY)
    document = facts_of(issued)
    document["token"] = document.pop("text")
    print_object(document, as_json=as_json)
    print_message("Keep the token: it is not shown again, and only its hash is stored.")


def revoke_token(
    client: "Client",
    token_id: Annotated[UUID, typer.Argument(metavar="ID", help="The token's id.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Revoke a token: whoever shows it from now on is refused."""
    client.revoke_token(token_id)
    print_object({"revoked": str(token_id)}, as_json=as_json)
