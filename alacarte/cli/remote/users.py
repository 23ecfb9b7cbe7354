"""`alacarte remote users` and `user`: who there is, and who is in which group."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.options import Json
from alacarte.cli.output import facts_of, print_list, print_object
from alacarte.cli.registry.users import GroupName, RoleName, UserName

if TYPE_CHECKING:
    from alacarte.client import Client


def users(client: "Client", as_json: Json = False) -> None:
    """List the users and groups that you may see."""
    documents = [facts_of(user) for user in client.list_users()]
    print_list("users", documents, ("name", "role", "is_group", "id", "created_at"), as_json=as_json)


def user(client: "Client", user: UserName, as_json: Json = False) -> None:
    """Show a user with their groups, or a group with its members."""
    found = client.get_user(user)
    others = client.list_members(found.id) if found.is_group else client.list_groups(found.id)
    names = [other.name for other in others]
    print_object({**facts_of(found), "members" if found.is_group else "groups": names}, as_json=as_json)


def create_user(
    client: "Client",
    name: Annotated[str, typer.Argument(help="A name that nobody has yet.", show_default=False)],
    role: Annotated[
        RoleName, typer.Option("--role", help="admin: everything but use; owner: uploads; predictor: predicts.")
    ] = "predictor",
    group: Annotated[bool, typer.Option("--group", help="Make a group instead, which holds grants alone.")] = False,
    as_json: Json = False,
) -> None:
    """Make a user or a group."""
    print_object(facts_of(client.create_user(name, role, is_group=group)), as_json=as_json)


def remove_user(client: "Client", user: UserName, as_json: Json = False) -> None:
    """Remove a user with their tokens, grants and memberships; their sources stay, without an owner."""
    client.delete_user(user)
    print_object({"removed": user}, as_json=as_json)


def join(client: "Client", group: GroupName, member: UserName, as_json: Json = False) -> None:
    """Let a user have what a group is granted."""
    client.add_member(group, member)
    print_object({"group": group, "joined": member}, as_json=as_json)


def leave(client: "Client", group: GroupName, member: UserName, as_json: Json = False) -> None:
    """End what a user has through a group."""
    client.remove_member(group, member)
    print_object({"group": group, "left": member}, as_json=as_json)
