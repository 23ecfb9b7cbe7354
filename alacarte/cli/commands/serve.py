"""`alacarte serve`: the HTTP service on one port, until it is stopped by a signal."""

import signal
from typing import Annotated

import typer

from alacarte.cli.output import print_message

Host = Annotated[
    str | None, typer.Option("--host", help="Address to listen on.", show_default="ALACARTE_HOST or 127.0.0.1")
]
Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65535, help="Port to listen on.", show_default="ALACARTE_PORT or 8000"),
]


def serve(host: Host = None, port: Port = None) -> None:
    """Serve the HTTP API; its settings are ALACARTE_* variables, and its log is JSON on stderr."""
    from registry.registry import open_registry
    from service.observability.logging import configure_logging
    from service.settings import read_service_settings

    given = {name: value for name, value in {"host": host, "port": port}.items() if value is not None}
    settings = read_service_settings(**given)
    open_registry(settings).database.close()  # reports errors in one line before anything starts
    configure_logging(settings.log_level)

    from service.process_tuning import prepare_process

    prepare_process(settings.max_connections)

    from service.app import create_app  # imports torch, which takes seconds
    from service.server import make_server

    server = make_server(create_app(settings), settings)
    # uvicorn finishes its requests at the first signal, and raises it again at the end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    server.run()
    print_message("stopped")
