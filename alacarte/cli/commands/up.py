"""`alacarte up`: everything on this machine with one command, service, worker and, the first time, a demo."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import CommandRefused
from alacarte.cli.options import Weights
from alacarte.cli.tables import say

if TYPE_CHECKING:  # SQLAlchemy takes a moment, and `--help` never needs it
    from alacarte.cli.up.supervisor import Household
    from registry.registry import Registry
    from service.settings import ServiceSettings


def up(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Listen here; 0 takes a free one.", show_default="8000")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where everything is kept.", show_default="ALACARTE_HOME")
    ] = None,
    weights: Weights = None,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="Show how it works, in a registry that is empty.")
    ] = True,
) -> None:
    """Serve and train on this machine, with nothing else to install or start; Ctrl-C ends it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # both ways to end it are in order
    try:
        _run(port, home, weights, demo)
    except KeyboardInterrupt:
        say("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(port: int | None, home: Path | None, weights: str | None, demo: bool) -> None:
    from alacarte.cli.up import bootstrap, messages, supervisor
    from alacarte.cli.up.progress import watching
    from registry.bootstrap import make_registry, open_registry

    settings = _settings(port, home, weights)
    make_registry(settings)
    registry = open_registry(settings)
    try:
        admin_token = bootstrap.make_first_admin(registry)
        if admin_token is not None:
            _tell(messages.admin_lines(admin_token))
        with supervisor.kept(settings, os.environ, say) as kept:
            say(f"starting a service and a worker, whose messages go to {settings.home / 'log'}")
            kept.wait_until_ready()
            how_to_token = messages.how_to_token(None if home is None else settings.home)
            shown = demo and _demonstrate(registry, settings, kept, admin_token, how_to_token)
            if admin_token is None and not shown:
                _tell(messages.again_lines(kept.url, how_to_token))
            say(f"serving at {kept.url}; Ctrl-C ends it")
            with watching(registry) as watch:
                while True:
                    kept.tick()
                    watch.look()
    finally:
        registry.database.close()


def _settings(port: int | None, home: Path | None, weights: str | None) -> "ServiceSettings":
    from alacarte.cli.up.bootstrap import free_port
    from service.settings import read_service_settings

    said = {"port": port, "home": None if home is None else home.absolute(), "weights": weights}
    settings = read_service_settings(**{name: value for name, value in said.items() if value is not None})
    return settings.model_copy(update={"port": free_port(settings.host, settings.port)})


def _demonstrate(
    registry: "Registry", settings: "ServiceSettings", kept: "Household", admin_token: str | None, how_to_token: str
) -> bool:
    """Shows the demo from its training on, if it is wanted and can be had; False if there was none to show."""
    from alacarte.cli.up import digits_demo, messages
    from alacarte.cli.up.pick_backbone import choose_backbone
    from alacarte.cli.up.progress import watching

    folder = settings.home / "demo"
    if not digits_demo.is_wanted(registry, folder):
        return False
    try:
        backbone = choose_backbone(settings.weights, digits_demo.SIZE, say)
    except CommandRefused as refusal:
        say(f"no demo: {refusal}")
        return False
    say(f"the demo: four people teach {backbone} handwritten digits")
    sources = digits_demo.bring_up(registry, folder, backbone)
    with watching(registry) as watch:
        while not all(watch.is_trained(source) for source in sources.values()):
            kept.tick()
            watch.look()
    demo = digits_demo.hand_out(registry, folder, sources)
    _tell(messages.demo_lines(kept.url, demo, admin_token, how_to_token))
    digits_demo.finish(folder)  # not before: what was handed out and never shown is handed out again
    return True


def _tell(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
