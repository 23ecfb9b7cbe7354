"""A server with connections that are watched, and an app that answers at length, or only when it is told to."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.types import Receive, Scope, Send

from service.server import make_server
from service.settings import ServiceSettings
from tests.service.waiting import wait_for

GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE_BYTES = 16 * 2**20  # more than any system keeps for a client that does not read


@dataclass
class House:
    """A server with an app that answers, at length or only when it is told to."""

    server: uvicorn.Server
    has_leave: threading.Event = field(default_factory=threading.Event)
    told: list[bytes] = field(default_factory=list)  # the bodies that came
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    @property
    def asking(self) -> int:
        return len(self.server.server_state.tasks)

    def connect(self, sent: bytes = b"") -> socket.socket:
        """A connection on which these bytes were sent."""
        port = self.server.servers[0].sockets[0].getsockname()[1]
        wire = self.stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        wire.sendall(sent)
        return wire

    def connect_and_wait(self, sent: bytes = b"") -> socket.socket:
        """A connection that the server knows of."""
        before = self.connections
        wire = self.connect(sent)
        wait_for(lambda: self.connections > before)
        return wire

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The app."""
        body, is_whole = b"", False
        while not is_whole:
            message = await receive()
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        self.told.append(body)
        while scope["path"] == "/held" and not self.has_leave.is_set():
            await asyncio.sleep(0.01)
        content = b"x" * (LARGE_BYTES if scope["path"] == "/large" else 4)
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


@contextmanager
def open_house(**settings: float) -> Iterator[House]:
    told = ServiceSettings(port=0, drain_s=1, **settings)  # type: ignore[arg-type]  # numbers that they are
    house: House

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await house.answer(scope, receive, send)

    server = make_server(app, told)
    server.config.lifespan = "off"
    house = House(server)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        with house.stack:
            yield house
    finally:
        house.has_leave.set()
        server.should_exit = True
        thread.join(60)
    assert not thread.is_alive()


def all_of(wire: socket.socket) -> bytes:
    """What comes until the other side ends the connection, be it by force."""
    found = b""
    try:
        while more := wire.recv(2**16):
            found += more
    except ConnectionError:
        pass
    return found


def answer_on(wire: socket.socket) -> bytes:
    """The next answer, which is short."""
    found = b""
    while not found.endswith(b"\r\n\r\nxxxx"):
        more = wire.recv(4096)
        assert more, found
        found += more
    return found


def status_of(answer: bytes) -> int:
    return int(answer.split()[1]) if answer else 0
