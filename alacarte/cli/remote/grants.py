"""`alacarte remote grants`, `grant` and `revoke`: who may use, manage or forget which source."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import facts_of, print_list, print_object
from alacarte.cli.registry.grants import RightName
from alacarte.cli.registry.users import UserName
from alacarte.cli.remote.client_context import source_of

if TYPE_CHECKING:
    from alacarte.client import Client


def grants(
    client: "Client",
    user: Annotated[str | None, typer.Option("--user", help="Only those of this user.", show_default="all")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only those to this.", show_default="all")] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Only those to sources of this task.", show_default="all")
    ] = None,
    as_json: Json = False,
) -> None:
    """List your own grants, and those to what you manage."""
    sources = {one.id: one.name for one in client.list_sources(task)}
    users = {one.id: one.name for one in client.list_users()}
    what = None if source is None else source_of(client, source, task)
    documents = [
        {"user": users.get(one.user_id), "source": sources.get(one.source_id), **facts_of(one)}
        for one in client.list_grants(what, user)
        if task is None or one.source_id in sources
    ]
    print_list("grants", documents, ("user", "right", "source", "granted_at", "id"), as_json=as_json)


def grant(
    client: "Client",
    user: UserName,
    source: SourceName,
    right: RightName = "use",
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Grant a right to a user or group."""
    print_object(facts_of(client.create_grant(user, source_of(client, source, task), right)), as_json=as_json)


def revoke(
    client: "Client",
    user: UserName,
    source: SourceName,
    right: RightName = "use",
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Take a right back, at once."""
    client.revoke_grant(user, source_of(client, source, task), right)
    print_object({"revoked": right, "user": user, "source": source}, as_json=as_json)
