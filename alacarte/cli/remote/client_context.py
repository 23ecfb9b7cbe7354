"""Commands that ask a service: each is given a client, and the options that say of which service and for whom."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from alacarte.cli.remote_options import Token, TokenFile, Url, asking, proof_of, url_of

if TYPE_CHECKING:
    from alacarte.client import Client

WHERE = {"url": Url, "token": Token, "token_file": TokenFile}


def asks(work: Callable[..., None]) -> Callable[..., None]:
    """The command of a function whose first parameter is the client; every such command names its service alike."""

    # Any: as typer reads them from the command line by the signature below
    def command(url: str | None, token: str | None, token_file: Path | None, **said: Any) -> None:
        with asking(url_of(url), proof_of(token, token_file)) as client:
            work(client, **said)

    _, *own = inspect.signature(work).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    where = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in WHERE.items()]
    parameters = [*(one.replace(kind=keyword) for one in own), *where]
    command.__name__, command.__doc__ = work.__name__, work.__doc__
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what `inspect` looks for
    return command


def source_of(client: "Client", source: str, task: str | None) -> str | UUID:
    """What the client takes for a source, within a task if one is named."""
    return source if task is None else client.find_source(source, task).id


def task_names(client: "Client") -> dict[UUID, str]:
    """The names of tasks by their ids."""
    return {task.id: task.name for task in client.list_tasks()}
