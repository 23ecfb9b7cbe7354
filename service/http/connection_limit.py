"""The connection limit: how many connections are open, how long a client may take, and how large a request head may be.

`service.middleware.body_limit` limits request bodies, which depend on the route.
"""

import asyncio
import socket
import struct
import sys
from collections import OrderedDict
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

MAX_HEAD_BYTES = 64 * 1024  # of a request line and its headers; one read may exceed it
RETRY_SECONDS = 2
UPGRADE_HEADERS = frozenset({b"connection", b"upgrade", b"http2-settings"})


class IdleConnection(Protocol):
    """A connection without a request in progress."""

    def close(self) -> None:
        """Close it."""


class ConnectionLimit:
    """Idle connections, the longest idle first; used on the event loop only."""

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self._idle: OrderedDict[IdleConnection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._idle)

    def admit(self, connection: IdleConnection, open_connections: int) -> bool:
        """Admit a new, idle connection. At the limit, close the longest-idle one; False if none is idle.

        A half-sent request counts as idle, so clients that never complete a request displace each other first.
        """
        if open_connections > self.max_connections:
            if not self._idle:
                return False
            longest_idle, _ = self._idle.popitem(last=False)
            longest_idle.close()
        self._idle[connection] = None
        return True

    def mark_idle(self, connection: IdleConnection) -> None:
        """Its response is complete, and the next request has not begun."""
        self._idle[connection] = None

    def mark_busy(self, connection: IdleConnection) -> None:
        """It has a request in progress, or is closed; may be called twice."""
        self._idle.pop(connection, None)


@dataclass(frozen=True)
class ClientTimeouts:
    """How long a client may take."""

    head_s: float  # from the first byte, or the connection, to the end of the headers
    send_s: float  # without receiving a byte of its response


class LimitedConnection(HttpToolsProtocol):
    """Uvicorn's connection, with the limits that it leaves to a proxy."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # Any: as uvicorn has it
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limit: ConnectionLimit,
        timeouts: ClientTimeouts,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limit = limit
        self._timeouts = timeouts
        self._is_reading_head = True  # of the current request, or of the next
        self._head_bytes = 0
        self._head_since: float | None = None  # when it began; None before its first byte
        self._unsent_bytes = 0  # at the last check
        self._unsent_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._data = b""  # the chunk that is being parsed
        self._current: RequestResponseCycle | None = None  # `self.cycle` is the last one, if requests are pipelined

    @property
    def has_request(self) -> bool:
        """Whether a request is in progress."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's narrowing
        """Admit the connection, or refuse it if every open one has a request in progress."""
        super().connection_made(transport)
        self._unsent_since = self._head_since = self.loop.time()
        self._schedule_check()
        if not self._limit.admit(self, len(self.connections)):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._limit.mark_busy(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._current is not None and not self._current.response_complete:  # uvicorn notifies only the last one
            self._current.disconnected = True
            self._current.message_event.set()
        super().connection_lost(exc)

    def close(self) -> None:
        """Close a connection without a request in progress."""
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse a head that is too large before it fills the memory."""
        if self._is_reading_head:
            self._head_bytes += len(data)
        self._data = data
        super().data_received(data)
        self._data = b""
        if self.transport.is_closing() or not self._is_reading_head:
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._head_since is None and not self.has_request:
            self._head_since = self.loop.time()  # empty lines count too: they stop uvicorn's keep-alive timer

    def on_message_begin(self) -> None:
        """Start the timer of the head."""
        super().on_message_begin()
        if self._head_since is None:
            self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """Stop the timer of the head; from now on the body limit applies."""
        self._is_reading_head = False
        self._head_since = None
        self._limit.mark_busy(self)
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._current = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Expect the head of the next request."""
        self._is_reading_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Become idle, unless the next request is pipelined already."""
        self._unsent_since = self.loop.time()
        if not self.pipeline and not self.transport.is_closing():
            self._limit.mark_idle(self)
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Restart the send timer: the client has received some of its response."""
        self._unsent_since = self.loop.time()
        super().resume_writing()

    def _should_upgrade(self) -> bool:
        """Return True, so that `handle_websocket_upgrade` is called for every upgrade."""
        return True

    def handle_websocket_upgrade(self) -> None:
        """Parse the request again without its upgrade headers: with them, the parser drops the body."""
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade)  # its argument is the offset of the rest
        rest = self._data[upgrade.args[0] :]
        if self.scope["method"] == "CONNECT":  # which has no path
            self.send_400_response("Invalid HTTP request received.")
            return
        version = self.scope["http_version"]
        head = f"{self.scope['method']} {self.url.decode('latin-1')} HTTP/{version}".encode("latin-1")
        headers = [name + b": " + value for name, value in self.headers if name not in UPGRADE_HEADERS]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([head, *headers, b"", rest]))

    def _schedule_check(self) -> None:
        interval_s = min(self._timeouts.head_s, self._timeouts.send_s)
        self._timer = self.loop.call_later(interval_s, self._check_timeouts)

    def _check_timeouts(self) -> None:
        """Close the connection if its client is too slow; check again later."""
        self._schedule_check()
        now = self.loop.time()
        unsent_bytes = self.transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes < self._unsent_bytes:
            self._unsent_since = now
        self._unsent_bytes = unsent_bytes
        if now >= self._unsent_since + self._timeouts.send_s:
            self._reset()
        elif self.transport.is_closing() or self.has_request:
            return
        elif self._head_since is not None and now >= self._head_since + self._timeouts.head_s:
            if self._head_bytes:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()  # without a request there is nothing to respond to

    def _reset(self) -> None:
        """Abort the connection with a TCP reset, so that the kernel drops the unsent response too."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _refuse(self, status: HTTPStatus) -> None:
        """Close the connection with this status, unless it would be taken for the response to a pending request."""
        if not self.has_request:
            retry = f"retry-after: {RETRY_SECONDS}\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
            headers = f"{retry}content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + headers.encode())
        self.transport.close()
