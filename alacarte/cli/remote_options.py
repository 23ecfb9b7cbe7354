"""A service as the command line has it: named by a URL, asked with a token, its errors told in one line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import CommandError, TemporaryFailure

if TYPE_CHECKING:  # importing it imports httpx, which only asking needs
    from alacarte.client import Client

TOKEN_VARIABLE = "ALACARTE_TOKEN"  # noqa: S105  # the name of a variable
LARGEST_TOKEN_FILE = 2**16  # bytes
TRY_AGAIN = frozenset({429, 502, 503, 504})  # of the statuses, those that say: not now

_PANEL = "Service"
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", envvar="ALACARTE_URL", help="Where it is.", rich_help_panel=_PANEL),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        help=f"Proves who you are. A token on a command line shows in ps: prefer {TOKEN_VARIABLE} or --token-file.",
        show_default=f"{TOKEN_VARIABLE}",
        rich_help_panel=_PANEL,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Read the token from this file.", rich_help_panel=_PANEL),
]


def url_of(url: str | None) -> str:
    """Where the service is, as it was said."""
    if not url:
        raise CommandError("which service? Give its URL in ALACARTE_URL or with --url")
    return url


def proof_of(token: str | None, file: Path | None) -> str:
    """The token that was given in one way or another; an option goes before the environment."""
    if token is not None and file is not None:
        raise CommandError("--token and --token-file are two tokens: give one")
    if file is not None:
        with file.open("rb") as opened:
            text = opened.read(LARGEST_TOKEN_FILE).decode(errors="replace").strip()
        if not text:
            raise CommandError(f"{file} is empty: put the token there")
        return text
    found = token or os.environ.get(TOKEN_VARIABLE)
    if not found:
        raise CommandError(f"a service needs a token: give it in {TOKEN_VARIABLE} or with --token-file")
    return found


@contextmanager
def asking(url: str, token: str) -> "Iterator[Client]":
    """A client whose errors are those of a command: TemporaryFailure if asking again may help."""
    from alacarte.client import Client, ClientError, ServiceProblem, ServiceUnreachable, WaitTimeout

    try:
        client = Client(url, token)
    except ValueError as error:
        raise CommandError(str(error)) from error
    try:
        with client:
            yield client
    except (ServiceUnreachable, WaitTimeout) as error:
        raise TemporaryFailure(str(error)) from error
    except ServiceProblem as problem:
        kind = TemporaryFailure if problem.status in TRY_AGAIN else CommandError
        raise kind(str(problem)) from problem
    except ClientError as error:
        raise CommandError(str(error)) from error
