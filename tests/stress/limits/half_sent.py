"""Thousands of connections that send part of a request and then nothing, and how each ends."""

import resource
import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.servers.processes import wait_until

ADDRESSES = 100  # source addresses on loopback, because the proxy limits connections per address
SPARE_FILES = 500  # descriptors for everything else
WAIT_SECONDS = 300.0


@dataclass
class OpenConnections:
    """Open connections, and the status with which each ended."""

    connections: dict[int, socket.socket] = field(default_factory=dict)  # by descriptor
    statuses: Counter[int] = field(default_factory=Counter)  # 0: closed without a response
    _first_bytes: dict[int, bytes] = field(default_factory=dict)  # of each response

    def join(self, port: int, sent: bytes, number: int, receive_bytes: int | None = None) -> None:
        """Open one more connection from one of the addresses and send these bytes."""
        connection = socket.socket()
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
        connection.settimeout(WAIT_SECONDS)
        connection.connect(("127.0.0.1", port))
        connection.sendall(sent)
        connection.setblocking(False)
        self.connections[connection.fileno()] = connection

    def await_end(self) -> None:
        """Read every connection until the server closes it."""
        self._await(select.EPOLLIN, self._read)

    def await_end_unread(self) -> None:
        """Wait, without reading, until the server has aborted every connection."""
        self._await(0, lambda descriptor: self._count(descriptor, 0))

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    def _await(self, events: int, take: Callable[[int], None]) -> None:
        def is_over() -> bool:
            for descriptor, _ in polling.poll(0.1, 1000):
                take(descriptor)
            return not self.connections

        with select.epoll() as polling:
            for descriptor in self.connections:
                polling.register(descriptor, events)
            wait_until(is_over, "the end of every connection", wait_s=WAIT_SECONDS)

    def _read(self, descriptor: int) -> None:
        try:
            data = self.connections[descriptor].recv(2**16)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if data:
            self._first_bytes.setdefault(descriptor, data)
        else:
            first = self._first_bytes.pop(descriptor, b"")
            self._count(descriptor, int(first[9:12]) if first.startswith(b"HTTP/1.1 ") else 0)

    def _count(self, descriptor: int, status: int) -> None:
        self.statuses[status] += 1
        self.connections.pop(descriptor).close()


@contextmanager
def open_connections(port: int, count: int, sent: bytes, receive_bytes: int | None = None) -> Iterator[OpenConnections]:
    """Open `count` connections, or as many as this process may have, and close them at the end."""
    connections = OpenConnections()
    try:
        for number in range(min(count, allowed_connections(count))):
            connections.join(port, sent, number, receive_bytes)
        yield connections
    finally:
        connections.close()


def allowed_connections(requested: int) -> int:
    """Raise the limit of open files towards `requested` connections, and return how many are possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < requested + SPARE_FILES:
        soft = min(hard, requested + SPARE_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft - SPARE_FILES
