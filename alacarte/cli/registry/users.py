"""`alacarte user`: users, groups by membership, whom an issuer vouches for, and what they may store."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alacarte.cli.local_options import all_pages, opened, reading, writing
from alacarte.cli.options import Json
from alacarte.cli.output import document_of, print_list, print_object

if TYPE_CHECKING:
    from registry.db.models.users import User

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
    from registry.access.caller import OPERATOR
    from registry.access.users import create_user

    with writing() as session:
        document = _document(create_user(session, OPERATOR, name, role, is_group=group))
    print_object(document, as_json=as_json)


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """List users and groups."""
    from registry.access.caller import OPERATOR
    from registry.access.users import list_users

    with reading() as session:
        documents = [_document(user) for user in all_pages(lambda after: list_users(session, OPERATOR, after))]
    print_list("users", documents, ("name", "role", "is_group", "id", "created_at"), as_json=as_json)


@app.command()
def show(name: UserName, as_json: Json = False) -> None:
    """Show a user with their groups, or a group with its members."""
    from registry.access.caller import OPERATOR
    from registry.access.users import find_user, list_groups, list_members

    with reading() as session:
        user = find_user(session, OPERATOR, name)
        ask = list_members if user.is_group else list_groups
        others = [other.name for other in all_pages(lambda after: ask(session, OPERATOR, user.id, after))]
        document = {**_document(user), "members" if user.is_group else "groups": others}
    print_object(document, as_json=as_json)


@app.command()
def remove(name: UserName, as_json: Json = False) -> None:
    """Remove a user with their tokens, grants and memberships; their sources stay, without an owner."""
    from registry.access.caller import OPERATOR
    from registry.access.users import find_user, remove_user

    with writing() as session:
        user = find_user(session, OPERATOR, name)
        document = _document(user)
        remove_user(session, OPERATOR, user.id)
    print_object({"removed": document["name"], "id": document["id"]}, as_json=as_json)


@app.command()
def join(group: GroupName, member: UserName, as_json: Json = False) -> None:
    """Let a user have what a group is granted."""
    from registry.access.caller import OPERATOR
    from registry.access.users import add_member, find_user

    with writing() as session:
        to, who = find_user(session, OPERATOR, group), find_user(session, OPERATOR, member)
        add_member(session, OPERATOR, to.id, who.id)
        document = {"group": to.name, "joined": who.name}
    print_object(document, as_json=as_json)


@app.command()
def leave(group: GroupName, member: UserName, as_json: Json = False) -> None:
    """End what a user has through a group."""
    from registry.access.caller import OPERATOR
    from registry.access.users import find_user, remove_member

    with writing() as session:
        of, who = find_user(session, OPERATOR, group), find_user(session, OPERATOR, member)
        remove_member(session, OPERATOR, of.id, who.id)
        document = {"group": of.name, "left": who.name}
    print_object(document, as_json=as_json)


@app.command()
def bind(
    name: UserName,
    subject: Annotated[str, typer.Option("--subject", help="As the issuer's JWTs have it in `sub`.")],
    issuer: Annotated[
        str | None, typer.Option("--issuer", help="As they have it in `iss`.", show_default="ALACARTE_OIDC_ISSUER")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let a subject of an issuer prove to be this user, by its JWTs."""
    from registry.access.caller import OPERATOR
    from registry.access.oidc_subjects import bind_subject
    from registry.access.users import find_user
    from registry.errors import Invalid
    from service.settings import read_service_settings

    vouching = issuer or read_service_settings().oidc_issuer
    if vouching is None:
        raise Invalid("name the issuer: --issuer URL, or ALACARTE_OIDC_ISSUER")
    with writing() as session:
        user = find_user(session, OPERATOR, name)
        document = _document(bind_subject(session, OPERATOR, user.id, vouching, subject))
    print_object(document, as_json=as_json)


@app.command()
def unbind(name: UserName, as_json: Json = False) -> None:
    """End what a user's subject proves, at once."""
    from registry.access.caller import OPERATOR
    from registry.access.oidc_subjects import unbind_subject
    from registry.access.users import find_user

    with writing() as session:
        document = _document(unbind_subject(session, OPERATOR, find_user(session, OPERATOR, name).id))
    print_object(document, as_json=as_json)


@app.command()
def quota(
    name: UserName,
    size: Annotated[
        int | None, typer.Option("--bytes", min=0, help="Let them store so many.", show_default="only show it")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Let them store what ALACARTE_QUOTA_BYTES says.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a user stores and may store, or say what they may."""
    from registry.access.caller import OPERATOR
    from registry.access.quotas import read_quota, set_quota
    from registry.access.users import find_user

    if default and size is not None:
        raise typer.BadParameter("say --bytes or --default, not both")
    with opened() as registry, registry.database.write_transaction() as session:
        user = find_user(session, OPERATOR, name)
        if default or size is not None:
            set_quota(session, OPERATOR, user.id, size)
        found = read_quota(session, OPERATOR, user.id, registry.default_quota_bytes)
        document = {"user": user.name, **document_of(found, "used_bytes", "quota_bytes", "is_default")}
    print_object(document, as_json=as_json)


def _document(user: "User") -> dict[str, object]:
    return document_of(user, "id", "name", "role", "is_group", "issuer", "subject", "created_at")
