"""The server that the service runs on: uvicorn with httptools and uvloop, and connections that are watched."""

import logging
import sys
from functools import partial
from importlib.util import find_spec

import uvicorn
from starlette.types import ASGIApp

from service.http.slow_clients import ClientTimeouts, ConnectionLimit, LimitedConnection
from service.observability.logging import log
from service.process_tuning import OWN_FILES
from service.settings import ServiceSettings

FEWEST_CONNECTIONS = 16


def make_server(app: ASGIApp, settings: ServiceSettings) -> uvicorn.Server:
    """The server of the app by its settings, not yet started."""
    lobby = ConnectionLimit(_connections_within(settings.max_connections))
    patience = ClientTimeouts(settings.head_timeout_s, settings.send_timeout_s)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=partial(LimitedConnection, lobby=lobby, patience=patience),  # type: ignore[arg-type]  # it is called only
            loop="uvloop" if find_spec("uvloop") else "asyncio",  # there is no uvloop for Windows
            ws="none",
            log_config=None,  # logs are ours
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.keep_alive_s,
            timeout_graceful_shutdown=settings.drain_s,
        )
    )


def _connections_within(max_connections: int) -> int:
    """As many connections as are wanted, or as open files are left for: without any, nobody could be answered."""
    if sys.platform == "win32":
        return max_connections
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or max_connections + OWN_FILES <= soft:
        return max_connections
    fitting = max(FEWEST_CONNECTIONS, soft - OWN_FILES)
    log(logging.WARNING, "connections.limited", wanted=max_connections, fitting=fitting, open_files=soft)
    return fitting
