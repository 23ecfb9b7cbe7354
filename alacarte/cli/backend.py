"""Where a command works: on the registry of this machine, or on a service by its URL and a token."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from uuid import UUID

import typer

from alacarte.cli.errors import RETRYABLE_STATUSES, CommandError, TemporaryFailure
from registry.ids import parse_id

if TYPE_CHECKING:  # httpx and SQLAlchemy are imported only by the commands that need them
    from alacarte.cli.local.backend import LocalBackend
    from alacarte.client import Client

    Backend: TypeAlias = Client | LocalBackend

TOKEN_VARIABLE = "ALACARTE_TOKEN"  # noqa: S105  # the name of a variable
MAX_TOKEN_FILE_BYTES = 2**16

_PANEL = "Service"
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="ALACARTE_URL",
        help="Work on the service at this URL.",
        show_default="the registry of this machine",
        rich_help_panel=_PANEL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        help=f"Your token at the service. Options are visible in ps: prefer {TOKEN_VARIABLE} or --token-file.",
        show_default=TOKEN_VARIABLE,
        rich_help_panel=_PANEL,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Read the token from this file.", rich_help_panel=_PANEL),
]
_LocalUrl = Annotated[str | None, typer.Option("--url", hidden=True)]
_SERVICE_OPTIONS = {"url": Url, "token": Token, "token_file": TokenFile}

Command: TypeAlias = Callable[..., None]


def with_backend(command: Command) -> Command:
    """Make a command of a function that takes the backend first; it gets `--url`, `--token` and `--token-file`."""

    def run(url: str | None, token: str | None, token_file: Path | None, **arguments: Any) -> None:  # Any: by typer
        with open_backend(url, token, token_file) as backend:
            command(backend, **arguments)

    return _with_options(run, command, _SERVICE_OPTIONS, drop_first=True)


def with_client(command: Command) -> Command:
    """Make a command of a function that takes a client of a service first; without a URL it is refused."""

    def run(url: str | None, token: str | None, token_file: Path | None, **arguments: Any) -> None:  # Any: by typer
        if not url:
            raise CommandError("this command needs a service: give its URL with --url or ALACARTE_URL")
        with open_client(url, resolve_token(token, token_file)) as client:
            command(client, **arguments)

    return _with_options(run, command, _SERVICE_OPTIONS, drop_first=True)


def local_only(command: Command) -> Command:
    """Make a command that refuses `--url`, because it needs the registry of this machine."""

    def run(url: str | None, **arguments: Any) -> None:  # Any: by typer
        if url is not None:
            raise CommandError("this command works on this machine only: run it where the registry is, without --url")
        command(**arguments)

    return _with_options(run, command, {"url": _LocalUrl}, drop_first=False)


def _with_options(run: Command, command: Command, options: dict[str, Any], *, drop_first: bool) -> Command:
    """Give `run` the name, help and options of the command, and these options."""
    own = list(inspect.signature(command).parameters.values())[int(drop_first) :]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in options.items()]
    parameters = [*(parameter.replace(kind=keyword) for parameter in own), *added]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by `inspect`
    return run


def resolve_source(backend: "Backend", source: str, task: str | None) -> UUID:
    """Return the id of a source given by name or id; an id is not looked up, so that a request can be repeated."""
    source_id = parse_id(source)
    return backend.find_source(source, task).id if source_id is None or task is not None else source_id


@contextmanager
def open_backend(url: str | None, token: str | None, token_file: Path | None) -> "Iterator[Backend]":
    """Open the service at the URL, or the registry of this machine if there is none."""
    if url:
        with open_client(url, resolve_token(token, token_file)) as client:
            yield client
        return
    if token is not None or token_file is not None:
        raise CommandError("a token is for a service: give its URL with --url or ALACARTE_URL")
    with open_local_backend() as backend:
        yield backend


@contextmanager
def open_local_backend() -> "Iterator[LocalBackend]":
    """Open the registry of this machine."""
    from alacarte._client.errors import WaitTimeout
    from alacarte.cli.local.backend import LocalBackend
    from alacarte.cli.local.registry import open_local_registry

    with open_local_registry() as registry:
        try:
            yield LocalBackend(registry)
        except WaitTimeout as error:
            raise TemporaryFailure(str(error)) from error


def resolve_token(token: str | None, file: Path | None) -> str:
    """Return the token of the option, of the file, or of the environment."""
    if token is not None and file is not None:
        raise CommandError("--token and --token-file are two tokens: give one")
    if file is not None:
        with file.open("rb") as opened:
            text = opened.read(MAX_TOKEN_FILE_BYTES).decode(errors="replace").strip()
        if not text:
            raise CommandError(f"{file} is empty: put the token there")
        return text
    found = token or os.environ.get(TOKEN_VARIABLE)
    if not found:
        raise CommandError(f"a service needs a token: give it in {TOKEN_VARIABLE} or with --token-file")
    return found


@contextmanager
def open_client(url: str, token: str) -> "Iterator[Client]":
    """Open a client whose errors are command errors; those worth a retry are TemporaryFailure."""
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
        kind = TemporaryFailure if problem.status in RETRYABLE_STATUSES else CommandError
        raise kind(str(problem)) from problem
    except ClientError as error:
        raise CommandError(str(error)) from error
