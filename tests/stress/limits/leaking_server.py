"""`alacarte serve` with a leak in it: a little of every answer stays, so that whoever looks for leaks can be tested.

Nothing of the product knows of this: the fault is put in from here, before the service starts.
"""

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

import service.app
from alacarte.cli.commands.serve import serve
from service.settings import ServiceSettings

KEPT_BYTES = 128 * 1024  # about a picture, decoded

_create_app = service.app.create_app
_cached_rights: list[bytearray] = []


class Leak:
    """Keeps something of every request for ever."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        _cached_rights.append(bytearray(b"x" * KEPT_BYTES))
        await self._app(scope, receive, send)


def create_leaking_app(settings: ServiceSettings) -> FastAPI:
    """The service, which forgets nothing."""
    app = _create_app(settings)
    app.add_middleware(Leak)
    return app


if __name__ == "__main__":
    assert hasattr(service.app, "create_app")
    service.app.create_app = create_leaking_app
    serve()
