"""The command `alacarte`: its commands, none of which imports heavy packages before it runs."""

import _thread
import signal
import sys
import threading
from types import FrameType
from typing import Annotated

import typer

from alacarte.cli.backend import local_only, with_client
from alacarte.cli.commands import db, erasures, grants, releases, sources, tasks, tokens, users
from alacarte.cli.commands.doctor import doctor
from alacarte.cli.commands.serve import serve
from alacarte.cli.commands.status import status
from alacarte.cli.commands.work import work
from alacarte.cli.errors import ErrorReportingGroup
from alacarte.cli.model.eval import evaluate_command
from alacarte.cli.model.inspect import inspect
from alacarte.cli.model.predict import predict
from alacarte.cli.model.train import train
from alacarte.cli.up.up import up

app = typer.Typer(
    name="alacarte",
    cls=ErrorReportingGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(local_only(up))
app.command()(train)
app.command()(predict)
app.command()(inspect)
app.command("eval")(evaluate_command)
app.command()(local_only(work))
app.command()(local_only(serve))
app.command()(with_client(status))
app.command()(local_only(doctor))
GROUPS = {
    "source": sources, "task": tasks, "user": users, "token": tokens, "grant": grants, "release": releases,
    "erasure": erasures, "db": db,
}  # fmt: skip
for name, group in GROUPS.items():
    app.add_typer(group.app, name=name)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """One frozen vision transformer, one small prompt per data source, composed per request.

    Commands on sources, tasks, users, tokens, grants, releases and erasures work on the registry of this machine,
    or on a service with --url (ALACARTE_URL) and a token (ALACARTE_TOKEN).
    """
    if version:
        from importlib.metadata import version as read_version  # slower than the rest of `--help`

        typer.echo(f"alacarte {read_version('alacarte')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    sys.unraisablehook = _repeat_lost_interrupt
    app(prog_name="alacarte")


def _exit_on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of signal handlers
    """Exit by an exception, so that scratch folders are removed."""
    sys.exit(128 + number)


def _repeat_lost_interrupt(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that Python ignores because it arrived while a destructor or a weakref callback ran."""
    if unraisable.exc_type is KeyboardInterrupt:
        threading.Timer(0.05, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)
