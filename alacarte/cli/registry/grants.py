"""`alacarte grant`: who may use, manage or forget which source."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alacarte.cli.local_options import all_pages, named_source, reading, writing
from alacarte.cli.options import InTask, Json, SourceName
from alacarte.cli.output import document_of, print_list, print_object
from alacarte.cli.registry.users import UserName

if TYPE_CHECKING:
    from registry.db.models.users import Grant

RightName = Annotated[
    Literal["use", "manage", "forget"],
    typer.Option("--right", help="use: predict with it; manage: add pictures and grant its use; forget: delete."),
]

app = typer.Typer(no_args_is_help=True, help="Grants: who may use, manage or forget which source.")


@app.command()
def add(
    user: UserName, source: SourceName, right: RightName = "use", task: InTask = None, as_json: Json = False
) -> None:
    """Grant a right to a user or group."""
    from registry.access.caller import OPERATOR
    from registry.access.grants import grant_right
    from registry.access.users import find_user

    with writing() as session:
        who, what = find_user(session, OPERATOR, user), named_source(session, source, task)
        made = grant_right(session, OPERATOR, who.id, what.id, right)
        document = {"user": who.name, "source": what.name, **_document(made)}
    print_object(document, as_json=as_json)


@app.command()
def revoke(
    user: UserName, source: SourceName, right: RightName = "use", task: InTask = None, as_json: Json = False
) -> None:
    """Take a right back, at once."""
    from registry.access.caller import OPERATOR
    from registry.access.grants import revoke_right as revoke_grant
    from registry.access.users import find_user

    with writing() as session:
        who, what = find_user(session, OPERATOR, user), named_source(session, source, task)
        document = {"revoked": right, "user_id": str(who.id), "source_id": str(what.id)}
        revoke_grant(session, OPERATOR, who.id, what.id, right)
    print_object(document, as_json=as_json)


@app.command("list")
def list_all(
    user: Annotated[str | None, typer.Option("--user", help="Only those of this user.", show_default="all")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only those to this.", show_default="all")] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Only those to sources of this task.", show_default="all")
    ] = None,
    as_json: Json = False,
) -> None:
    """List grants."""
    from registry.access.caller import OPERATOR
    from registry.access.grants import list_grants
    from registry.access.users import find_user
    from registry.catalog.sources import find_source
    from registry.catalog.tasks import find_task

    with reading() as session:
        within = None if task is None else find_task(session, task).id
        who = None if user is None else find_user(session, OPERATOR, user).id
        what = None if source is None else named_source(session, source, task).id
        found = list(
            all_pages(lambda after: list_grants(session, OPERATOR, what, user_id=who, task_id=within, after=after))
        )
        users = {one: find_user(session, OPERATOR, one).name for one in {grant.user_id for grant in found}}
        sources = {one: find_source(session, OPERATOR, None, one).name for one in {grant.source_id for grant in found}}
        documents = [
            {"user": users[grant.user_id], "source": sources[grant.source_id], **_document(grant)} for grant in found
        ]
    print_list("grants", documents, ("user", "right", "source", "granted_at", "id"), as_json=as_json)


def _document(grant: "Grant") -> dict[str, object]:
    return document_of(grant, "id", "user_id", "source_id", "right", "granted_by", "granted_at")
