"""Who calls: proved by a bearer token before a request is routed, so that no route can forget to ask."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.access.caller import Caller
from registry.access.credentials import Credential, authenticate
from service.concurrency import look
from service.console.files import PUBLIC_PATHS
from service.errors import TokenMissing
from service.middleware.route_table import PREDICT_PATHS, MatchedRoute, matched_route
from service.state import AppState, app_state

OPEN = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"}) | PUBLIC_PATHS
_BEARER = re.compile(r"bearer +(?P<token>\S+) *", re.IGNORECASE | re.ASCII)


class AuthenticationMiddleware:
    """Lets nothing in without a living token, but for the open paths; for a question one that just lived will do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put caller and credential into the request's state, or raise Unauthenticated or TooManyRequests."""
        if scope["type"] == "http" and scope["path"] not in OPEN:
            state = app_state(scope)
            credential = await state.authenticator.verify(_token_in(scope))
            scope["state"]["caller"] = await _caller(state, credential, matched_route(scope))
            scope["state"]["credential"] = credential
            state.rate_limiter.acquire(credential.public_id)  # only now: of strangers nothing is remembered
        await self._app(scope, receive, send)


async def _caller(state: AppState, credential: Credential, route: MatchedRoute) -> Caller:
    known = state.token_cache.get(credential) if route.path in PREDICT_PATHS else None
    if known is not None:
        return known
    caller = await look(state.thread_pool, lambda: authenticate(state.registry.database, credential))
    state.token_cache.put(credential, caller)
    return caller


def _token_in(scope: Scope) -> str:
    found = _BEARER.fullmatch(Headers(scope=scope).get("authorization", ""))
    if found is None:
        raise TokenMissing
    return found["token"]
