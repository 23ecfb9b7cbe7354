"""`alacarte up`: service, worker and, at the first start, a demo on this machine."""

import errno
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alacarte.cli.errors import CommandError
from alacarte.cli.options import Weights
from alacarte.cli.output import print_message

if TYPE_CHECKING:  # importing them takes time that `--help` does not need
    from alacarte.cli.up.supervisor import Supervisor
    from registry.registry import Registry
    from service.settings import ServiceSettings

START_SECONDS = 120.0


def up(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.", show_default="8000")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the registry.", show_default="ALACARTE_HOME")
    ] = None,
    weights: Weights = None,
    demo: Annotated[bool, typer.Option("--demo/--no-demo", help="Create the demo if the registry is empty.")] = True,
) -> None:
    """Run service and worker on this machine until Ctrl-C; nothing else has to be installed or started."""
    previous = signal.getsignal(signal.SIGINT), signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run(port, home, weights, demo)
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), previous, strict=True):
            signal.signal(number, handler)
    print_message("stopped")


def _run(port: int | None, home: Path | None, weights: str | None, demo: bool) -> None:
    from alacarte.cli.up import messages
    from alacarte.cli.up.worker_process import WorkerProcess
    from registry.registry import open_registry, upgrade_registry
    from service.observability.logging import log_to
    from service.process_tuning import prepare_process

    settings = _read_settings(port, home, weights)
    upgrade_registry(settings)
    registry = open_registry(settings)
    logs = settings.home / "log"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        admin_token = create_first_admin(registry)
        if admin_token is not None:
            _print_lines(messages.admin_lines(admin_token))
        print_message(f"starting a service and a worker; their logs are in {logs}")
        (logs / "worker.log").unlink(missing_ok=True)
        worker = WorkerProcess(_worker_arguments(settings), _worker_environment(settings), logs / "worker.log")
        with (logs / "service.log").open("w") as log:
            log_to(log, os.environ.get("ALACARTE_LOG_LEVEL", "warning"))
            prepare_process(settings.max_connections)

            from alacarte.cli.up.supervisor import Supervisor  # after prepare_process: the app imports torch
            from service.app import create_app
            from service.server import make_server

            supervisor = Supervisor(make_server(create_app(settings), settings), worker, logs / "service.log")
            how_to_token = messages.how_to_token(None if home is None else settings.home)
            supervisor.run(lambda: _monitor(supervisor, registry, settings, admin_token, how_to_token, demo))
    finally:
        registry.database.close()


def _monitor(
    supervisor: "Supervisor",
    registry: "Registry",
    settings: "ServiceSettings",
    admin_token: str | None,
    how_to_token: str,
    demo: bool,
) -> None:
    """Wait for the service, run the demo if it is due, then show training progress until the end."""
    from alacarte.cli.up import messages
    from alacarte.cli.up.progress import RegistryProgress

    url = local_url(settings)
    _wait_until_ready(supervisor, url)
    is_demo_shown = demo and _run_demo(supervisor, registry, settings, admin_token, how_to_token)
    if admin_token is None and not is_demo_shown:
        _print_lines(messages.again_lines(url, how_to_token))
    print_message(f"serving at {url}; Ctrl-C ends it")
    progress = RegistryProgress(registry)
    while True:
        supervisor.tick()
        progress.refresh()


def _wait_until_ready(supervisor: "Supervisor", url: str) -> None:
    from alacarte.client import Client

    deadline = time.monotonic() + START_SECONDS
    with Client(url, token=None, timeout=5.0) as client:
        while not client.is_ready():
            supervisor.tick()
            if time.monotonic() > deadline:
                raise CommandError(f"the service was not ready after {START_SECONDS:g} s: see its log")


def _run_demo(
    supervisor: "Supervisor",
    registry: "Registry",
    settings: "ServiceSettings",
    admin_token: str | None,
    how_to_token: str,
) -> bool:
    """Create the demo, wait until it is trained and print its commands; False if it is not due or has no weights."""
    from alacarte.cli.up import demo, messages
    from alacarte.cli.up.progress import RegistryProgress
    from alacarte.prompting.errors import PromptingError

    folder = settings.home / "demo"
    if not demo.is_due(registry, folder):
        return False
    try:
        backbone = demo.choose_backbone(settings.weights, print_message)
    except PromptingError as error:
        print_message(f"no demo: {error}")
        return False
    print_message(f"the demo: four sources of handwritten digits on {backbone}")
    sources = demo.create_sources(registry, folder, backbone)
    progress = RegistryProgress(registry)
    while not all(progress.is_trained(source) for source in sources.values()):
        supervisor.tick()
        progress.refresh()
    created = demo.issue_demo_tokens(registry, folder, sources)
    _print_lines(messages.demo_lines(local_url(settings), created, admin_token, how_to_token))
    demo.mark_finished(folder)  # after the tokens were shown, otherwise the next start issues new ones
    return True


def _read_settings(port: int | None, home: Path | None, weights: str | None) -> "ServiceSettings":
    from service.settings import read_service_settings

    options = {"port": port, "home": None if home is None else home.absolute(), "weights": weights}
    settings = read_service_settings(**{name: value for name, value in options.items() if value is not None})
    return settings.model_copy(update={"port": find_port(settings.host, settings.port)})


def find_port(host: str, port: int) -> int:
    """Return the port, or a free one for 0; CommandError if it cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as probe:
            found: int = probe.getsockname()[1]
            return found
    except OSError as error:
        is_about_the_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        advice = "choose another port with --port" if is_about_the_port else "set ALACARTE_HOST to one of this machine"
        reason = error.strerror or str(error)
        raise CommandError(f"cannot listen on {host}:{port} ({reason}): {advice}") from error


def create_first_admin(registry: "Registry") -> str | None:
    """Create a first admin and return its token; None if there is an admin already."""
    from alacarte.cli.local.registry import all_pages
    from alacarte.cli.up.messages import ADMIN
    from registry.access.caller import OPERATOR
    from registry.access.tokens import issue_token
    from registry.access.users import create_user, list_users

    with registry.database.write_transaction() as session:
        if any(user.role == "admin" for user in all_pages(lambda after: list_users(session, OPERATOR, after))):
            return None
        admin = create_user(session, OPERATOR, ADMIN, "admin")
        return issue_token(session, OPERATOR, admin.id, note="issued at the first start").text


def local_url(settings: "ServiceSettings") -> str:
    """Return the URL of the service on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)  # noqa: S104  # compared only
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _worker_arguments(settings: "ServiceSettings") -> list[str]:
    weights = [] if settings.weights is None else ["--weights", settings.weights]
    return ["work", "--device", settings.device, "--dtype", settings.dtype, *weights]


def _worker_environment(settings: "ServiceSettings") -> dict[str, str]:
    return {**os.environ, "ALACARTE_HOME": str(settings.home)}


def _print_lines(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
