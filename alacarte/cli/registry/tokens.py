"""`alacarte token`: how users prove who they are."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from alacarte.cli.local_options import all_pages, reading, writing
from alacarte.cli.options import Json
from alacarte.cli.output import document_of, print_list, print_message, print_object
from alacarte.cli.registry.users import UserName

if TYPE_CHECKING:
    from registry.db.models.users import Token

app = typer.Typer(no_args_is_help=True, help="Tokens: shown once, kept as a hash, revoked at once.")


@app.command()
def issue(
    user: UserName,
    note: Annotated[str, typer.Option("--note", help="What it is for, to tell it from others.")] = "",
    days: Annotated[
        float | None,
        typer.Option("--days", min=0, max=36_500, help="How long it is good for.", show_default="until revoked"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Issue a token to a user, and show it this once."""
    from registry.access.caller import OPERATOR
    from registry.access.tokens import issue_token
    from registry.access.users import find_user

    lifetime = None if days is None else timedelta(days=days)
    with writing() as session:
        who = find_user(session, OPERATOR, user)
        issued = issue_token(session, OPERATOR, who.id, note=note, lifetime=lifetime)
        document = {"user": who.name, **_document(issued.token), "token": issued.text}
    print_object(document, as_json=as_json)
    print_message("Keep the token: it is not shown again, and only its hash is stored.")


@app.command("list")
def list_all(
    user: Annotated[str | None, typer.Option("--user", help="Only those of this user.", show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """List tokens by their prefixes."""
    from registry.access.caller import OPERATOR
    from registry.access.tokens import list_tokens
    from registry.access.users import find_user

    with reading() as session:
        who = None if user is None else find_user(session, OPERATOR, user).id
        found = list(all_pages(lambda after: list_tokens(session, OPERATOR, who, after=after)))
        users = {one: find_user(session, OPERATOR, one).name for one in {token.user_id for token in found}}
        documents = [{"user": users[token.user_id], **_document(token)} for token in found]
    print_list("tokens", documents, ("user", "prefix", "note", "expires_at", "id"), as_json=as_json)


@app.command()
def revoke(
    token: Annotated[UUID, typer.Argument(metavar="ID", help="The token's id.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Revoke a token: whoever shows it from now on is refused."""
    from registry.access.caller import OPERATOR
    from registry.access.tokens import revoke_token

    with writing() as session:
        revoke_token(session, OPERATOR, token)
    print_object({"revoked": str(token)}, as_json=as_json)


def _document(token: "Token") -> dict[str, object]:
    return document_of(token, "id", "user_id", "prefix", "note", "created_at", "expires_at")
