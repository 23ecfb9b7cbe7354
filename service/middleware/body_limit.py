"""The body limit: content type, size and duration of each request body, and the size of all bodies in memory."""

import time
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import BodyTooLarge, BodyTooSlow, Busy, MalformedBody, MethodNotAllowed, UnsupportedMediaType
from service.http.media_types import JSON, OCTET_STREAM
from service.middleware.route_table import PREDICT_PATHS, MatchedRoute
from service.settings import KIB, MIB, ServiceSettings

FRAMING_BYTES = 64 * KIB  # of a multipart body, around an archive of the largest size
DOCUMENT_BYTES = 64 * KIB  # of a small JSON document, which is validated on the event loop
LABELS_BYTES = 8 * MIB  # of a task with as many and as long labels as a task may have
GRACE_SECONDS = 30.0  # before the minimum speed of an upload applies


@dataclass(frozen=True)
class BodyLimits:
    """The limits of one request body."""

    max_bytes: int
    max_seconds: float
    min_bytes_per_s: int = 0
    is_in_memory: bool = True  # until the response; an upload is streamed to the disk

    def seconds_left(self, received_bytes: int, waited_s: float) -> float:
        """Return how long the next chunk may take, after these bytes and this time."""
        if not self.min_bytes_per_s:
            return self.max_seconds - waited_s
        return min(self.max_seconds, max(GRACE_SECONDS, received_bytes / self.min_bytes_per_s)) - waited_s


class BodyLimitMiddleware:
    """Refuses bodies that the route does not accept, and stops reading a body at its limits."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._settings = settings
        self._bytes_in_memory = 0  # of all requests in progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put the body's media type into the request's state, and serve the request with a limited body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route: MatchedRoute = scope["state"]["route"]
        media_type = scope["state"]["media_type"] = _check_media_type(scope, route)
        limits = self._limits(route.path, media_type)
        if _content_length(scope) > limits.max_bytes:
            raise BodyTooLarge(limits.max_bytes)
        received_bytes, is_complete, waited_s = 0, False, 0.0

        async def receive_limited() -> Message:
            nonlocal received_bytes, is_complete, waited_s
            if is_complete:  # the next message is the disconnect, which may come at any time
                return await receive()
            timeout_s = min(self._settings.read_timeout_s, limits.seconds_left(received_bytes, waited_s))
            began = time.monotonic()
            try:
                with anyio.fail_after(max(0.0, timeout_s)):
                    message = await receive()
            except TimeoutError as error:
                raise BodyTooSlow from error
            waited_s += time.monotonic() - began
            chunk_bytes = len(message.get("body", b""))
            received_bytes += chunk_bytes
            if limits.is_in_memory:
                self._add_bytes(chunk_bytes)
            if received_bytes > limits.max_bytes:
                raise BodyTooLarge(limits.max_bytes)
            is_complete = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, receive_limited, send)
        finally:
            if limits.is_in_memory:
                self._bytes_in_memory -= received_bytes

    def _add_bytes(self, chunk_bytes: int) -> None:
        self._bytes_in_memory += chunk_bytes
        if self._bytes_in_memory > self._settings.max_total_body_bytes:
            raise Busy("the bodies of all requests in progress are too large: try again in a moment")

    def _limits(self, path: str, media_type: str) -> BodyLimits:
        """Return the limits of the route; those of a small document if it has none of its own."""
        settings = self._settings
        match path:
            case "/sources" | "/sources/{source_id}/samples" if media_type != JSON:
                return BodyLimits(
                    settings.max_upload_bytes + FRAMING_BYTES,
                    settings.upload_timeout_s,
                    settings.upload_min_bytes_per_s,
                    is_in_memory=False,
                )
            case "/sources/{source_id}/prompt":
                max_bytes = settings.max_prompt_bytes
            case _ if path in PREDICT_PATHS:
                max_bytes = settings.max_body_bytes
            case "/tasks":
                max_bytes = min(LABELS_BYTES, settings.max_body_bytes)
            case _:
                max_bytes = min(DOCUMENT_BYTES, settings.max_body_bytes)
        return BodyLimits(max_bytes, settings.body_timeout_s)


def _check_media_type(scope: Scope, route: MatchedRoute) -> str:
    """Return the content type without its parameters; refuse it, or the method, if the route does not accept it."""
    if route.methods and not route.has_method:
        raise MethodNotAllowed(route.methods)
    content_type = Headers(scope=scope).get("content-type", OCTET_STREAM)  # HTTP's default
    media_type = content_type.partition(";")[0].strip().lower()
    if route.media_types and media_type not in route.media_types:
        raise UnsupportedMediaType(content_type, route.media_types)
    return media_type


def _content_length(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise MalformedBody(f"the content length {text[:20]!r} is not a number")
    return int(text[:20])
