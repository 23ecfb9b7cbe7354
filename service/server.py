"""The HTTP server: uvicorn with httptools, uvloop and the connection limit."""

import logging
import sys
from functools import partial
from importlib.util import find_spec

import uvicorn
from starlette.types import ASGIApp

from service.http.connection_limit import ClientTimeouts, ConnectionLimit, LimitedConnection
from service.observability.logging import log
from service.process_tuning import RESERVED_FILES
from service.settings import ServiceSettings

MIN_CONNECTIONS = 16


def make_server(app: ASGIApp, settings: ServiceSettings) -> uvicorn.Server:
    """Return a server for the app, not yet started."""
    connection = partial(
        LimitedConnection,
        limit=ConnectionLimit(_max_connections(settings.max_connections)),
        timeouts=ClientTimeouts(settings.head_timeout_s, settings.send_timeout_s),
    )
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=connection,  # type: ignore[arg-type]  # uvicorn only calls it
            loop="uvloop" if find_spec("uvloop") else "asyncio",  # there is no uvloop for Windows
            ws="none",
            log_config=None,  # service.observability.logging configures logs
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.keep_alive_s,
            timeout_graceful_shutdown=settings.drain_s,
        )
    )


def _max_connections(requested: int) -> int:
    """Return the requested number of connections, or fewer if the limit of open files is too low for them."""
    if sys.platform == "win32":
        return requested
    import resource

    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if open_files == resource.RLIM_INFINITY or requested + RESERVED_FILES <= open_files:
        return requested
    allowed = max(MIN_CONNECTIONS, open_files - RESERVED_FILES)
    log(logging.WARNING, "connections.limited", requested=requested, allowed=allowed, open_files=open_files)
    return allowed
