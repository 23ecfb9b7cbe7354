"""What must be there before anything starts: a port to listen on, and a first admin."""

import errno
import socket

from alacarte.cli.errors import CommandRefused
from alacarte.cli.local_options import all_pages
from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user, list_users
from registry.registry import Registry

ADMIN = "admin"


def free_port(host: str, port: int) -> int:
    """The port, or a free one for 0; refused if nobody can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as probe:
            found: int = probe.getsockname()[1]
            return found
    except OSError as error:
        is_about_the_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        advice = "choose another port with --port" if is_about_the_port else "set ALACARTE_HOST to one of this machine"
        reason = error.strerror or str(error)
        raise CommandRefused(f"cannot listen on {host}:{port} ({reason}): {advice}") from error


def make_first_admin(registry: Registry) -> str | None:
    """The text of the first admin's token, which is shown this once; None if there is an admin already."""
    with registry.database.writing() as session:
        if any(user.role == "admin" for user in all_pages(lambda after: list_users(session, OPERATOR, after))):
            return None
        admin = create_user(session, OPERATOR, ADMIN, "admin")
        return issue_token(session, OPERATOR, admin.id, note="made at the first start").text
