"""Who calls: proved by a bearer token before a request is routed, so that no route can forget to ask."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.callers import Caller
from registry.errors import Unauthenticated
from registry.tokens import authenticate
from service.service import Service, service_of

OPEN = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
_BEARER = re.compile(r"bearer +(?P<token>\S+) *", re.IGNORECASE | re.ASCII)


class Authentication:
    """Lets nothing through without a living token, but for the open paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Puts the caller and the token's text into the request's state, or raises Unauthenticated."""
        if scope["type"] == "http" and scope["path"] not in OPEN:
            service = service_of(scope)
            token = _token_in(scope)
            scope["state"]["caller"] = await service.door.through(lambda: caller_of(service, token))
            scope["state"]["token"] = token
        await self._app(scope, receive, send)


def caller_of(service: Service, token: str) -> Caller:
    """Who holds the token now; blocks."""
    with service.registry.database.reading() as session:
        return authenticate(session, token)


def _token_in(scope: Scope) -> str:
    found = _BEARER.fullmatch(Headers(scope=scope).get("authorization", ""))
    if found is None:
        raise Unauthenticated
    return found["token"]
