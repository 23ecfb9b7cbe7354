"""Thousands of connections at once that send a little and then nothing, and what becomes of them."""

import resource
import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.servers.processes import until

ADDRESSES = 100  # of loopback, from which they come: a proxy counts the connections of each
SPARE_FILES = 500  # of this process, for everything else
PATIENCE_SECONDS = 300.0


@dataclass
class Crowd:
    """Connections that were opened, how each ended, and what it was told before."""

    wires: dict[int, socket.socket] = field(default_factory=dict)  # by descriptor; those that are open
    told: Counter[int] = field(default_factory=Counter)  # statuses; 0 for those that were told nothing
    _said: dict[int, bytes] = field(default_factory=dict)  # how the answer to each begins

    def join(self, port: int, sent: bytes, number: int, receive_bytes: int | None = None) -> None:
        """One more connection, from one of the addresses, on which these bytes are sent."""
        wire = socket.socket()
        if receive_bytes is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        wire.bind((f"127.0.1.{1 + number % ADDRESSES}", 0))
        wire.settimeout(PATIENCE_SECONDS)
        wire.connect(("127.0.0.1", port))
        wire.sendall(sent)
        wire.setblocking(False)
        self.wires[wire.fileno()] = wire

    def await_end(self) -> None:
        """Every connection was read to its end, which the other side has made."""
        self._await(select.EPOLLIN, self._read)

    def await_end_unread(self) -> None:
        """Nothing was read, and every connection was ended by force."""
        self._await(0, lambda descriptor: self._count(descriptor, 0))

    def close(self) -> None:
        """Whoever is left goes by itself."""
        for wire in self.wires.values():
            wire.close()
        self.wires.clear()

    def _await(self, events: int, take: Callable[[int], None]) -> None:
        def is_over() -> bool:
            for descriptor, _ in polling.poll(0.1, 1000):
                take(descriptor)
            return not self.wires

        with select.epoll() as polling:
            for descriptor in self.wires:
                polling.register(descriptor, events)
            until(is_over, "the end of every connection", wait_s=PATIENCE_SECONDS)

    def _read(self, descriptor: int) -> None:
        try:
            said = self.wires[descriptor].recv(2**16)
        except BlockingIOError:
            return
        except ConnectionError:
            said = b""
        if said:
            self._said.setdefault(descriptor, said)
        else:
            first = self._said.pop(descriptor, b"")
            self._count(descriptor, int(first[9:12]) if first.startswith(b"HTTP/1.1 ") else 0)

    def _count(self, descriptor: int, status: int) -> None:
        self.told[status] += 1
        self.wires.pop(descriptor).close()


@contextmanager
def open_connections(port: int, count: int, sent: bytes, receive_bytes: int | None = None) -> Iterator[Crowd]:
    """So many connections, or as many as this process may have; whoever is left at the end is gone."""
    found = Crowd()
    try:
        for number in range(min(count, allowed_wires(count))):
            found.join(port, sent, number, receive_bytes)
        yield found
    finally:
        found.close()


def allowed_wires(wanted: int) -> int:
    """How many connections this process may have at once, after it has asked for as many as are wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + SPARE_FILES:
        soft = min(hard, wanted + SPARE_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft - SPARE_FILES
