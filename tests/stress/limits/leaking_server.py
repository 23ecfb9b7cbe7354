"""`alacarte serve` with a memory leak, to test that the leak tests can fail.

The product has no hook for this: this module patches it before the service starts.
"""

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

import service.app
from alacarte.cli.commands.serve import serve
from service.settings import ServiceSettings

LEAKED_BYTES = 128 * 1024  # about one decoded picture

_create_app = service.app.create_app
_leaked: list[bytearray] = []


class Leak:
    """Middleware that leaks memory with every request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        _leaked.append(bytearray(b"x" * LEAKED_BYTES))
        await self._app(scope, receive, send)


def create_leaking_app(settings: ServiceSettings) -> FastAPI:
    """Create the service with the leak."""
    app = _create_app(settings)
    app.add_middleware(Leak)
    return app


if __name__ == "__main__":
    assert hasattr(service.app, "create_app")
    service.app.create_app = create_leaking_app
    serve()
