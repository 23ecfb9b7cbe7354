"""`alacarte user`: users, groups and their members, OIDC subjects, quotas."""

from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.api.literals import Role
from alacarte.cli.backend import with_backend
from alacarte.cli.options import GroupName, Json, UserName
from alacarte.cli.output import print_list, print_object

if TYPE_CHECKING:
    from alacarte.cli.backend import Backend

app = typer.Typer(no_args_is_help=True, help="Users, and groups that hold grants for their members.")


@app.command()
@with_backend
def add(
    backend: "Backend",
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that no user has yet.", show_default=False)],
    role: Annotated[
        Role, typer.Option("--role", help="admin: manages everything; owner: uploads; predictor: predicts.")
    ] = "predictor",
    group: Annotated[bool, typer.Option("--group", help="Create a group, which only holds grants.")] = False,
    as_json: Json = False,
) -> None:
    """Create a user or a group."""
    print_object(backend.create_user(name, role, is_group=group).model_dump(), as_json=as_json)


@app.command("list")
@with_backend
def list_all(backend: "Backend", as_json: Json = False) -> None:
    """List users and groups."""
    documents = [user.model_dump() for user in backend.list_users()]
    print_list("users", documents, ("name", "role", "is_group", "id", "created_at"), as_json=as_json)


@app.command()
@with_backend
def show(backend: "Backend", user: UserName, as_json: Json = False) -> None:
    """Show a user with their groups, or a group with its members."""
    found = backend.get_user(user)
    related = backend.list_members(found.id) if found.is_group else backend.list_groups(found.id)
    names = [other.name for other in related]
    print_object({**found.model_dump(), "members" if found.is_group else "groups": names}, as_json=as_json)


@app.command()
@with_backend
def remove(backend: "Backend", user: UserName, as_json: Json = False) -> None:
    """Remove a user with their tokens, grants and memberships; their sources stay, without an owner."""
    found = backend.get_user(user)
    backend.delete_user(found.id)
    print_object({"removed": found.name, "id": found.id}, as_json=as_json)


@app.command()
@with_backend
def join(backend: "Backend", group: GroupName, member: UserName, as_json: Json = False) -> None:
    """Add a user to a group, which gives them the group's grants."""
    to, user = backend.get_user(group), backend.get_user(member)
    backend.add_member(to.id, user.id)
    print_object({"group": to.name, "joined": user.name}, as_json=as_json)


@app.command()
@with_backend
def leave(backend: "Backend", group: GroupName, member: UserName, as_json: Json = False) -> None:
    """Remove a user from a group, at once."""
    of, user = backend.get_user(group), backend.get_user(member)
    backend.remove_member(of.id, user.id)
    print_object({"group": of.name, "left": user.name}, as_json=as_json)


@app.command()
@with_backend
def bind(
    backend: "Backend",
    user: UserName,
    subject: Annotated[str, typer.Option("--subject", help="The claim `sub` of the user's JWTs.")],
    issuer: Annotated[
        str | None,
        typer.Option("--issuer", help="The claim `iss` of the user's JWTs.", show_default="ALACARTE_OIDC_ISSUER"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Accept the JWTs of an issuer's subject as this user."""
    print_object(backend.bind_subject(user, subject, issuer).model_dump(), as_json=as_json)


@app.command()
@with_backend
def unbind(backend: "Backend", user: UserName, as_json: Json = False) -> None:
    """Stop accepting the JWTs of a user's subject, at once."""
    backend.unbind_subject(user)
    print_object(backend.get_user(user).model_dump(), as_json=as_json)


@app.command()
@with_backend
def quota(
    backend: "Backend",
    user: UserName,
    size: Annotated[
        int | None, typer.Option("--bytes", min=0, help="Set the quota.", show_default="only show it")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Set the quota to ALACARTE_QUOTA_BYTES.")] = False,
    as_json: Json = False,
) -> None:
    """Show how much a user stores and may store, or set it."""
    if default and size is not None:
        raise typer.BadParameter("give --bytes or --default, not both")
    found = backend.get_user(user)
    sets = default or size is not None
    result = backend.set_quota(found.id, size) if sets else backend.get_quota(found.id)
    print_object({"user": found.name, **result.model_dump()}, as_json=as_json)
