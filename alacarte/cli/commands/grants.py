"""`alacarte grant`: who may use, manage or forget which source."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.api.literals import Right
from alacarte.cli.backend import with_backend
from alacarte.cli.options import InTask, Json, OfUser, SourceName, UserName
from alacarte.cli.output import print_list, print_object

if TYPE_CHECKING:
    from alacarte.cli.backend import Backend

RightName = Annotated[
    Right,
    typer.Option("--right", help="use: predict with it; manage: add pictures and grant its use; forget: delete."),
]

app = typer.Typer(no_args_is_help=True, help="Grants: who may use, manage or forget which source.")


@app.command()
@with_backend
def add(
    backend: "Backend",
    user: UserName,
    source: SourceName,
    right: RightName = "use",
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Grant a right to a user or group."""
    to, what = backend.get_user(user), backend.find_source(source, task)
    grant = backend.create_grant(to.id, what.id, right)
    print_object({"user": to.name, "source": what.name, **grant.model_dump()}, as_json=as_json)


@app.command()
@with_backend
def revoke(
    backend: "Backend",
    user: UserName,
    source: SourceName,
    right: RightName = "use",
    task: InTask = None,
    as_json: Json = False,
) -> None:
    """Revoke a right, at once."""
    of, what = backend.get_user(user), backend.find_source(source, task)
    backend.revoke_grant(of.id, what.id, right)
    names = {"revoked": right, "user": of.name, "source": what.name}
    print_object({**names, "user_id": of.id, "source_id": what.id}, as_json=as_json)


@app.command("list")
@with_backend
def list_all(
    backend: "Backend",
    user: OfUser = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Only grants to this source, by name or id.", show_default="all")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Only grants to sources of this task.", show_default="all")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the grants that you may see."""
    sources = {known.id: known.name for known in backend.list_sources(task)}
    users = {known.id: known.name for known in backend.list_users()}
    source_id = None if source is None else backend.find_source(source, task).id
    documents = [
        {"user": users.get(grant.user_id), "source": sources.get(grant.source_id), **grant.model_dump()}
        for grant in backend.list_grants(source_id, user)
        if task is None or grant.source_id in sources
    ]
    print_list("grants", documents, ("user", "right", "source", "granted_at", "id"), as_json=as_json)
