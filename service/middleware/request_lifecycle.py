"""The outermost layer: every request gets an id, a line in the log, a measurement, safe headers, and an answer."""

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
from service.middleware.route_table import match_route, matched_route
from service.observability.logging import log, redact_secrets
from service.observability.metrics import Metrics

REQUEST_ID = "x-request-id"
SAFE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
CLIENT_GONE = 499  # as proxies count it: nobody waits for the answer any more
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"  # methods of strangers are no label either
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_QUIET = frozenset({"/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})


class RequestLifecycleMiddleware:
    """Where requests come in and answers leave, also those to errors that nobody foresaw."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; other scopes pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _id_of(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        # The server sends no body in answer to HEAD, whatever it is given.
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        scope["state"]["address"] = match_route(routed)
        started = time.perf_counter()
        status: int | None = None
        is_read = not _has_body(scope)

        async def receive_seen() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
                if not is_read:  # or the rest of a body that nobody wants would be taken in to the end
                    headers["connection"] = "close"
            await send(message)

        try:
            await self._app(routed, receive_seen, send_safely)
        except ClientDisconnect:
            status = CLIENT_GONE
        except asyncio.CancelledError:
            if status is not None:
                raise
            response = await problem_response(Request(scope), NotReady("this replica is being stopped: ask again"))
            await response(scope, receive, send_safely)
        except Exception as error:
            if status is not None:  # too late for another answer: the connection breaks off
                log(logging.ERROR, "response.broken", request_id=request_id, error=error)
                raise
            response = await problem_response(Request(scope), error)
            await response(scope, receive, send_safely)
        finally:
            self._note(scope, status or CLIENT_GONE, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = matched_route(scope).path
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._metrics.request_seconds.labels(method, route, str(status)).observe(seconds)
        caller = scope["state"].get("caller")
        log(
            logging.DEBUG if route in _QUIET else logging.INFO,
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(1000 * seconds, 1),
            user=None if caller is None else caller.user_id,
            request_id=scope["state"]["request_id"],
        )


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _id_of(scope: Scope) -> str:
    """The caller's id of the request if it is a modest one, else a new one."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _ID.fullmatch(given) and redact_secrets(given) == given else str(new_id())
