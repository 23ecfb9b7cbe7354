"""The command `alacarte`: its groups of commands, each imported without what only its work needs."""

import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from alacarte.cli.commands.eval import evaluate_command
from alacarte.cli.commands.inspect import inspect
from alacarte.cli.commands.predict import predict
from alacarte.cli.commands.serve import serve
from alacarte.cli.commands.train import train
from alacarte.cli.commands.up import up
from alacarte.cli.commands.work import work
from alacarte.cli.errors import ErrorReportingGroup
from alacarte.cli.registry import db, erasures, grants, releases, sources, tasks, tokens, users
from alacarte.cli.registry.doctor import doctor
from alacarte.cli.remote import group as remote

app = typer.Typer(
    name="alacarte",
    cls=ErrorReportingGroup,
    help="One frozen vision transformer, one small prompt per data source, composed per request.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(train)
app.command()(predict)
app.command()(inspect)
app.command("eval")(evaluate_command)
app.command()(work)
app.command()(serve)
app.command()(up)
app.command()(doctor)
GROUPS = {
    "db": db, "user": users, "token": tokens, "task": tasks, "source": sources, "grant": grants,
    "release": releases, "erasure": erasures, "remote": remote,
}  # fmt: skip
for name, group in GROUPS.items():
    app.add_typer(group.app, name=name)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """One frozen vision transformer, one small prompt per data source, composed per request."""
    if version:
        from importlib.metadata import version as version_of  # slower than all the rest of `--help`

        typer.echo(f"alacarte {version_of('alacarte')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """The console script."""
    signal.signal(signal.SIGTERM, _leave)
    app(prog_name="alacarte")


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of signal handlers
    """End as by Ctrl-C: what stands in scratch folders is removed on the way out."""
    sys.exit(128 + number)
