"""What comes in is of a kind that is read there, counted and timed while it comes: neither much nor slow hurts."""

import time
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import BodyTooLarge, BodyTooSlow, BodyUnreadable, Busy, MediaTypeRefused, MethodNotAllowed
from service.http.multipart import BYTES, JSON, parse_media_type
from service.middleware.route_table import PREDICT_PATHS, MatchedRoute, matched_route
from service.settings import KIB, MIB, ServiceSettings

FRAMING_BYTES = 64 * KIB  # of a multipart body, around an archive of the largest size
DOCUMENT_BYTES = 64 * KIB  # of JSON that describes one thing: it is checked on the event loop
LABELS_BYTES = 8 * MIB  # of a task with as many and as long labels as a task may have
GRACE_SECONDS = 30.0  # before anybody asks how fast an upload is


@dataclass(frozen=True)
class BodyLimits:
    """How much of a body is read, and for how long."""

    max_bytes: int
    max_seconds: float
    least_bytes_per_s: int = 0
    is_paused: bool = True  # in memory until the answer; an upload goes to the disk

    def patience(self, seen_bytes: int, waited_s: float) -> float:
        """How long the next bytes may take, after so many have come in a wait of so many seconds."""
        if not self.least_bytes_per_s:
            return self.max_seconds - waited_s
        return min(self.max_seconds, max(GRACE_SECONDS, seen_bytes / self.least_bytes_per_s)) - waited_s


class BodyLimitMiddleware:
    """Refuses what no route reads, and stops reading a body at its limit of bytes or of time."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._settings = settings
        self._held_bytes = 0  # of all requests that are under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request whose body is watched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = matched_route(scope)
        limits = self._limits(route, _checked_type(scope, route))
        if _declared(scope) > limits.max_bytes:
            raise BodyTooLarge(limits.max_bytes)
        seen_bytes, is_whole, waited_s = 0, False, 0.0

        async def receive_watched() -> Message:
            nonlocal seen_bytes, is_whole, waited_s
            if is_whole:  # what comes now is the client's leaving, for which there is no time limit
                return await receive()
            patience = min(self._settings.read_timeout_s, limits.patience(seen_bytes, waited_s))
            began = time.monotonic()
            try:
                with anyio.fail_after(max(0.0, patience)):
                    message = await receive()
            except TimeoutError as error:
                raise BodyTooSlow from error
            waited_s += time.monotonic() - began
            size_bytes = len(message.get("body", b""))
            seen_bytes += size_bytes
            if limits.is_paused:
                self._hold(size_bytes)
            if seen_bytes > limits.max_bytes:
                raise BodyTooLarge(limits.max_bytes)
            is_whole = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, receive_watched, send)
        finally:
            if limits.is_paused:
                self._held_bytes -= seen_bytes

    def _hold(self, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        if self._held_bytes > self._settings.max_bodies_bytes:
            raise Busy("too much is being sent at once: send it again in a moment")

    def _limits(self, route: MatchedRoute, media_type: str) -> BodyLimits:
        """What may be sent there; little, where nothing else is said."""
        told = self._settings
        match route.path:
            case "/sources" | "/sources/{source_id}/samples" if media_type != JSON:
                return BodyLimits(
                    told.max_upload_bytes + FRAMING_BYTES, told.upload_timeout_s, told.upload_least_bytes_per_s, False
                )
            case "/sources/{source_id}/prompt":
                return BodyLimits(told.max_prompt_bytes, told.body_timeout_s)
            case path if path in PREDICT_PATHS:
                return BodyLimits(told.max_body_bytes, told.body_timeout_s)
            case "/tasks":
                return BodyLimits(min(LABELS_BYTES, told.max_body_bytes), told.body_timeout_s)
        return BodyLimits(min(DOCUMENT_BYTES, told.max_body_bytes), told.body_timeout_s)


def _checked_type(scope: Scope, route: MatchedRoute) -> str:
    """The content type, without its parameters; refused unless it is one that the route reads."""
    if route.methods and not route.has_method:
        raise MethodNotAllowed(route.methods)
    content_type = Headers(scope=scope).get("content-type", BYTES)  # as HTTP has it where none is said
    media_type = parse_media_type(content_type)
    if route.media_types and media_type not in route.media_types:
        raise MediaTypeRefused(content_type, route.media_types)
    return media_type


def _declared(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise BodyUnreadable("the content length is no number")
    return int(text[:20])
