"""Authenticate the bearer token before a request is routed, so that no route can forget to."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.access.authentication import Credential, authenticate
from registry.access.caller import Caller
from registry.access.tokens import TOKEN_START, parse_token
from service.auth.oidc import OidcIssuer
from service.console.files import CONSOLE_PATHS
from service.errors import TokenMissing
from service.http.request_context import DATABASE_TIMEOUT_S
from service.middleware.route_table import PREDICT_PATHS
from service.state import AppState, app_state

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"}) | CONSOLE_PATHS
_BEARER = re.compile(r"bearer +(?P<token>\S+) *", re.IGNORECASE | re.ASCII)


class AuthenticationMiddleware:
    """Refuses requests without a valid token, except to public paths, and limits the rate of each token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put caller and credential into the request's state, or raise Unauthenticated or TooManyRequests."""
        if scope["type"] == "http" and scope["path"] not in PUBLIC_PATHS:
            state = app_state(scope)
            credential = await verify_token(_bearer_token(scope), state.oidc_issuer)
            scope["state"]["caller"] = await _authenticate(state, credential, scope["state"]["route"].path)
            scope["state"]["credential"] = credential
            state.rate_limiter.acquire(credential.public_id)  # after authentication: only known tokens take memory
        await self._app(scope, receive, send)


async def verify_token(text: str, issuer: OidcIssuer | None) -> Credential:
    """Return the credential in one of our own tokens or in a JWT of the issuer; SQL decides later whose it is."""
    if issuer is None or text.startswith(TOKEN_START):
        return parse_token(text)
    return await issuer.verify(text)


async def _authenticate(state: AppState, credential: Credential, path: str) -> Caller:
    """Return the credential's caller; predict requests accept one that SQL confirmed within the last second."""
    cached = state.token_cache.get(credential) if path in PREDICT_PATHS else None
    if cached is not None:
        return cached
    database = state.registry.database
    caller = await state.thread_pool.run(lambda: authenticate(database, credential), timeout_s=DATABASE_TIMEOUT_S)
    state.token_cache.put(credential, caller)
    return caller


def _bearer_token(scope: Scope) -> str:
    match = _BEARER.fullmatch(Headers(scope=scope).get("authorization", ""))
    if match is None:
        raise TokenMissing
    return match["token"]
