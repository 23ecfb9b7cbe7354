"""What comes in is counted and timed while it comes, so that neither much nor slow hurts."""

import re
import time

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import BodyTooLarge, BodyTooSlow, BodyUnreadable, Busy
from service.settings import ServiceSettings

UPLOADS = re.compile(r"/sources(/[^/]+/samples)?/?")
PROMPTS = re.compile(r"/sources/[^/]+/prompt/?")
FRAMING_BYTES = 64 * 1024  # of a multipart body, around an archive of the largest size


class Bodies:
    """Stops reading a body at its limit of bytes or of time, whichever route reads it."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._settings = settings
        self._held_bytes = 0  # of all requests that are under way; uploads go to the disk, and hold none

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request whose body is watched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = UPLOADS.fullmatch(scope["path"]) is not None
        max_bytes, max_seconds = self._limits(scope["path"])
        if _declared(scope) > max_bytes:
            raise BodyTooLarge(max_bytes)
        seen_bytes, is_whole, latest = 0, False, time.monotonic() + max_seconds

        async def receive_watched() -> Message:
            nonlocal seen_bytes, is_whole
            if is_whole:  # what comes now is the client's leaving, for which there is no time limit
                return await receive()
            patience = min(self._settings.read_timeout_s, latest - time.monotonic())
            try:
                with anyio.fail_after(max(0.0, patience)):
                    message = await receive()
            except TimeoutError as error:
                raise BodyTooSlow from error
            size_bytes = len(message.get("body", b""))
            seen_bytes += size_bytes
            if not is_upload:
                self._hold(size_bytes)
            if seen_bytes > max_bytes:
                raise BodyTooLarge(max_bytes)
            is_whole = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, receive_watched, send)
        finally:
            if not is_upload:
                self._held_bytes -= seen_bytes

    def _hold(self, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        if self._held_bytes > self._settings.max_bodies_bytes:
            raise Busy("too much is being sent at once: send it again in a moment")

    def _limits(self, path: str) -> tuple[int, float]:
        """Bytes and seconds."""
        settings = self._settings
        if UPLOADS.fullmatch(path):
            return settings.max_upload_bytes + FRAMING_BYTES, settings.upload_timeout_s
        if PROMPTS.fullmatch(path):
            return settings.max_prompt_bytes, settings.body_timeout_s
        return settings.max_body_bytes, settings.body_timeout_s


def _declared(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise BodyUnreadable("the content length is no number")
    return int(text[:20])
