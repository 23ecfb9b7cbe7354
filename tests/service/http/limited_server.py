"""A server with the connection limit, and an app that answers at length, or only when the test lets it."""

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
from tests.servers.processes import wait_until

GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
DELAYED = b"GET /delayed HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE_BYTES = 16 * 2**20  # more than any system keeps for a client that does not read


@dataclass
class LimitedServer:
    """The server, its app, and the connections of the test."""

    server: uvicorn.Server = field(init=False)
    may_answer: threading.Event = field(default_factory=threading.Event)
    bodies: list[bytes] = field(default_factory=list)  # of all requests
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    @property
    def requests(self) -> int:
        return len(self.server.server_state.tasks)

    def connect(self, sent: bytes = b"") -> socket.socket:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        sock = self.stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        sock.sendall(sent)
        return sock

    def connect_and_wait(self, sent: bytes = b"") -> socket.socket:
        """Open a connection, and wait until the server has accepted it."""
        before = self.connections
        sock = self.connect(sent)
        wait_until(lambda: self.connections > before)
        return sock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, is_complete = b"", False
        while not is_complete:
            message = await receive()
            body += message.get("body", b"")
            is_complete = not message.get("more_body", False)
        self.bodies.append(body)
        while scope["path"] == "/delayed" and not self.may_answer.is_set():
            await asyncio.sleep(0.01)
        content = b"x" * (LARGE_BYTES if scope["path"] == "/large" else 4)
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


@contextmanager
def run_limited_server(**settings: float) -> Iterator[LimitedServer]:
    limited = LimitedServer()
    limited.server = server = make_server(limited, ServiceSettings(port=0, drain_s=1, **settings))  # type: ignore[arg-type]
    server.config.lifespan = "off"
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        with limited.stack:
            yield limited
    finally:
        limited.may_answer.set()
        server.should_exit = True
        thread.join(60)
    assert not thread.is_alive()


def read_all(sock: socket.socket) -> bytes:
    """Return what the server sends until it closes or resets the connection."""
    received = b""
    try:
        while chunk := sock.recv(2**16):
            received += chunk
    except ConnectionError:
        pass
    return received


def read_response(sock: socket.socket) -> bytes:
    """Return the next response, which is short."""
    received = b""
    while not received.endswith(b"\r\n\r\nxxxx"):
        chunk = sock.recv(4096)
        assert chunk, received
        received += chunk
    return received


def status_of(response: bytes) -> int:
    return int(response.split()[1]) if response else 0
