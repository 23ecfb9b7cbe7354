"""A connection whose client is slow is ended: the head of a request comes soon and is short, an answer is taken.

`service.middleware.body_limits` limits the size and duration of request bodies, which depend on the route.
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

MAX_HEAD_BYTES = 64 * 1024  # of a request line and its headers; what one read brings beyond that is let pass
RETRY_SECONDS = 2
HOP_HEADERS = frozenset({b"connection", b"upgrade", b"http2-settings"})  # by which another protocol is wished for


class IdleConnection(Protocol):
    """A connection on which no request is under way."""

    def let_go(self) -> None:
        """Ends it."""


class ConnectionLimit:
    """Those who wait, in the order in which they began to; on the event loop only."""

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self._waiting: OrderedDict[IdleConnection, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def is_admitted(self, comer: IdleConnection, connections: int) -> bool:
        """Whether there is room for one more, with whom there are so many: made, if need be, by whoever waits longest.

        Whoever sends a request does so at once, and waits for nothing; so half-sent requests go before honest ones.
        """
        if connections > self.max_connections:
            if not self._waiting:
                return False
            longest, _ = self._waiting.popitem(last=False)
            longest.let_go()
        self._waiting[comer] = None
        return True

    def enter(self, waiting: IdleConnection) -> None:
        """Its request is answered, and the next has not come."""
        self._waiting[waiting] = None

    def leave(self, asking: IdleConnection) -> None:
        """It has asked, or is gone; it may be told twice."""
        self._waiting.pop(asking, None)


@dataclass(frozen=True)
class ClientTimeouts:
    """How long a client may take."""

    head_s: float  # from the first byte, or the connection, to the end of the headers
    send_s: float  # without taking a byte of its answer


class LimitedConnection(HttpToolsProtocol):
    """Uvicorn's, with the limits that it leaves to a proxy."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # Any: as uvicorn has it
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        lobby: ConnectionLimit,
        patience: ClientTimeouts,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._lobby = lobby
        self._patience = patience
        self._is_head_wanted = True  # of the request that is read, or of the next
        self._head_bytes = 0
        self._head_since: float | None = None  # when it began; None while nothing of it has come
        self._unsent_bytes = 0  # at the last look
        self._unsent_since = 0.0
        self._looking: asyncio.TimerHandle | None = None
        self._data = b""  # what is being read
        self._asked: RequestResponseCycle | None = None  # the request under way: not the last one if several came

    @property
    def is_answering(self) -> bool:
        """Whether a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's narrowing
        """Admitted, unless everybody who is here has asked something."""
        super().connection_made(transport)
        self._unsent_since = self._head_since = self.loop.time()
        self._look_later()
        if not self._lobby.is_admitted(self, len(self.connections)):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing of it is kept."""
        self._lobby.leave(self)
        if self._looking is not None:
            self._looking.cancel()
        if self._asked is not None and not self._asked.response_complete:  # uvicorn tells the last one that came
            self._asked.disconnected = True
            self._asked.message_event.set()
        super().connection_lost(exc)

    def let_go(self) -> None:
        """Ends a connection on which no request is under way."""
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Reads on; a head that does not end is refused before it fills the memory."""
        if self._is_head_wanted:
            self._head_bytes += len(data)
        self._data = data
        super().data_received(data)
        self._data = b""
        if self.transport.is_closing() or not self._is_head_wanted:
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._head_since is None and not self.is_answering:
            self._head_since = self.loop.time()  # empty lines count, too: they have ended the time between requests

    def on_message_begin(self) -> None:
        """The first bytes of a request."""
        super().on_message_begin()
        if self._head_since is None:
            self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """From now on the body's limits count."""
        self._is_head_wanted = False
        self._head_since = None
        self._lobby.leave(self)
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._asked = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """What comes now is the next request's."""
        self._is_head_wanted = True
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Waits for the next request, unless it is there already."""
        self._unsent_since = self.loop.time()
        if not self.pipeline and not self.transport.is_closing():
            self._lobby.enter(self)
        super().on_response_complete()

    def resume_writing(self) -> None:
        """The client has taken some of its answer."""
        self._unsent_since = self.loop.time()
        super().resume_writing()

    def _should_upgrade(self) -> bool:
        """Whether a request that wants another protocol is kept from being answered as it is."""
        return True

    def handle_websocket_upgrade(self) -> None:
        """Reads the request once more without its wish for another protocol: with it, the parser drops the body."""
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade)  # with the place where the other protocol would begin
        rest = self._data[upgrade.args[0] :]
        if self.scope["method"] == "CONNECT":  # which has no path
            self.send_400_response("Invalid HTTP request received.")
            return
        version = self.scope["http_version"]
        head = f"{self.scope['method']} {self.url.decode('latin-1')} HTTP/{version}".encode("latin-1")
        kept = [name + b": " + value for name, value in self.headers if name not in HOP_HEADERS]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([head, *kept, b"", rest]))

    def _look_later(self) -> None:
        patience = min(self._patience.head_s, self._patience.send_s)
        self._looking = self.loop.call_later(patience, self._look)

    def _look(self) -> None:
        """Ends the connection if its client is late; looks again as long as it is there."""
        self._look_later()
        now = self.loop.time()
        unsent_bytes = self.transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes < self._unsent_bytes:
            self._unsent_since = now
        self._unsent_bytes = unsent_bytes
        if now >= self._unsent_since + self._patience.send_s:
            self._reset()
        elif self.transport.is_closing() or self.is_answering:
            return
        elif self._head_since is not None and now >= self._head_since + self._patience.head_s:
            if self._head_bytes:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()  # who never said anything is told nothing

    def _reset(self) -> None:
        """Ends the connection without waiting for its client to read: neither we nor the system keep its answer."""
        wire = self.transport.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _refuse(self, status: HTTPStatus) -> None:
        """Ends the connection with an answer that no request has asked for, unless it would be taken for another's."""
        if not self.is_answering:
            retry = f"retry-after: {RETRY_SECONDS}\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
            headers = f"{retry}content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + headers.encode())
        self.transport.close()
