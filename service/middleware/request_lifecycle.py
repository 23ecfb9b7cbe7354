"""The outermost middleware: request id, log line, metrics, security headers, and a response to every error."""

import asyncio
import logging
import re
import time

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.ids import new_id
from service.errors import NotReady
from service.http.problems import problem_response
from service.middleware.route_table import MatchedRoute, RouteTable
from service.observability.logging import log, redact_secrets
from service.observability.metrics import Metrics

REQUEST_ID = "x-request-id"
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
CLIENT_DISCONNECTED = 499  # nginx's status for it
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"  # instead of unknown methods, which would make unbounded labels
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_LOGGED_AT_DEBUG = frozenset({"/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})


class RequestLifecycleMiddleware:
    """Identifies, measures and logs each request, and answers errors that no other layer handled."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; pass other scopes through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        # The server sends no body in answer to HEAD, whatever it is given.
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        route_table: RouteTable = scope["app"].state.route_table
        route = scope["state"]["route"] = route_table.match(routed["method"], routed["path"])
        started = time.perf_counter()
        status: int | None = None
        is_body_read = not _has_body(scope)

        async def receive_tracked() -> Message:
            nonlocal is_body_read
            message = await receive()
            is_body_read = is_body_read or not message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if not is_body_read:  # else uvicorn would read the rest of the body to its end
                    headers["connection"] = "close"
            await send(message)

        try:
            await self._app(routed, receive_tracked, send_with_headers)
        except ClientDisconnect:
            status = CLIENT_DISCONNECTED
        except asyncio.CancelledError:
            if status is not None:
                raise
            response = await problem_response(Request(scope), NotReady("this replica is shutting down: try again"))
            await response(scope, receive, send_with_headers)
        except Exception as error:
            if status is not None:  # too late for another response: the connection is closed
                log(logging.ERROR, "response.aborted", request_id=request_id, error=error)
                raise
            response = await problem_response(Request(scope), error)
            await response(scope, receive, send_with_headers)
        finally:
            self._record(scope, route, status or CLIENT_DISCONNECTED, time.perf_counter() - started)

    def _record(self, scope: Scope, route: MatchedRoute, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._metrics.request_seconds.labels(method, route.path, str(status)).observe(seconds)
        caller = scope["state"].get("caller")
        log(
            logging.DEBUG if route.path in _LOGGED_AT_DEBUG else logging.INFO,
            "request",
            method=method,
            route=route.path,
            status=status,
            ms=round(1000 * seconds, 1),
            user=None if caller is None else caller.user_id,
            request_id=scope["state"]["request_id"],
        )


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _request_id(scope: Scope) -> str:
    """Return the client's request id if it is short and plain, else a new one."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _REQUEST_ID.fullmatch(given) and redact_secrets(given) == given else str(new_id())
