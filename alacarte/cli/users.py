"""`alacarte user`: users, and groups by membership."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alacarte.cli.documents import document_of, print_list, print_one
from alacarte.cli.options import Json
from alacarte.cli.registry_door import all_pages, reading, writing

if TYPE_CHECKING:
    from registry.models.people import User

RoleName = Literal["admin", "owner", "predictor"]
UserName = Annotated[str, typer.Argument(metavar="USER", help="A user's name or id.", show_default=False)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="A group's name or id.", show_default=False)]

app = typer.Typer(no_args_is_help=True, help="Users, and groups that hold grants for their members.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name that nobody has yet.", show_default=False)],
    role: Annotated[
        RoleName, typer.Option("--role", help="admin: everything but use; owner: uploads; predictor: predicts.")
    ] = "predictor",
    group: Annotated[bool, typer.Option("--group", help="Make a group instead, which holds grants alone.")] = False,
    as_json: Json = False,
) -> None:
    """Make a user or a group."""
    from registry.callers import OPERATOR
    from registry.users import create_user

    with writing() as session:
        document = _document(create_user(session, OPERATOR, name, role, is_group=group))
    print_one(document, as_json=as_json)


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List users and groups."""
    from registry.callers import OPERATOR
    from registry.users import list_users

    with reading() as session:
        documents = [_document(user) for user in all_pages(lambda after: list_users(session, OPERATOR, after))]
    print_list("users", documents, ("name", "role", "is_group", "id", "created_at"), as_json=as_json)


@app.command()
def show(name: UserName, as_json: Json = False) -> None:
    """Show a user with their groups, or a group with its members."""
    from registry.callers import OPERATOR
    from registry.users import find_user, groups_of, members_of

    with reading() as session:
        user = find_user(session, OPERATOR, name)
        ask = members_of if user.is_group else groups_of
        others = [other.name for other in all_pages(lambda after: ask(session, OPERATOR, user.id, after))]
        document = {**_document(user), "members" if user.is_group else "groups": others}
    print_one(document, as_json=as_json)


@app.command()
def remove(name: UserName, as_json: Json = False) -> None:
    """Remove a user with their tokens, grants and memberships; their sources stay, without an owner."""
    from registry.callers import OPERATOR
    from registry.users import find_user, remove_user

    with writing() as session:
        user = find_user(session, OPERATOR, name)
        document = _document(user)
        remove_user(session, OPERATOR, user.id)
    print_one({"removed": document["name"], "id": document["id"]}, as_json=as_json)


@app.command()
def join(group: GroupName, member: UserName, as_json: Json = False) -> None:
    """Let a user have what a group is granted."""
    from registry.callers import OPERATOR
    from registry.users import add_member, find_user

    with writing() as session:
        to, who = find_user(session, OPERATOR, group), find_user(session, OPERATOR, member)
        add_member(session, OPERATOR, to.id, who.id)
        document = {"group": to.name, "joined": who.name}
    print_one(document, as_json=as_json)


@app.command()
def leave(group: GroupName, member: UserName, as_json: Json = False) -> None:
    """End what a user has through a group."""
    from registry.callers import OPERATOR
    from registry.users import find_user, remove_member

    with writing() as session:
        of, who = find_user(session, OPERATOR, group), find_user(session, OPERATOR, member)
        remove_member(session, OPERATOR, of.id, who.id)
        document = {"group": of.name, "left": who.name}
    print_one(document, as_json=as_json)


def _document(user: "User") -> dict[str, object]:
    return document_of(user, "id", "name", "role", "is_group", "created_at")
