"""The load generator, in a process of its own: `python -m bench.serving.processes.load_client JSON`.

Keeps one request in flight on each connection until the time or the number of requests is reached. Prints when each
request was sent and answered, by a clock that all processes of the machine share.
"""

import asyncio
import base64
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

from bench.serving.http_messages import MessageReader, build_requests, parse_status


@dataclass(frozen=True)
class LoadOptions:
    """The server, the pictures, the tokens, the number of connections and the duration."""

    port: int
    pictures: str  # a file of JSON: a list of pictures in base64
    tokens: list[str | None]
    connections: int
    seconds: float | None = None
    requests: int | None = None


@dataclass(frozen=True)
class LoadReport:
    """When each request was sent and answered."""

    began: float
    ended: float  # no request was sent after this; those in flight are still answered
    sent: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)  # responses other than 200, by status


class LoadConnection(asyncio.Protocol):
    """Sends a request, and the next as soon as it is answered."""

    def __init__(self, generator: "LoadGenerator") -> None:
        self._generator = generator
        self._reader = MessageReader()
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send_next()

    def data_received(self, data: bytes) -> None:
        message = self._reader.feed(data)
        if message is not None:
            self._generator.record(self._sent, time.perf_counter(), message)
            self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._generator.connection_closed(exc)

    def _send_next(self) -> None:
        request = self._generator.next_request()
        if request is None:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)


class LoadGenerator:
    """The next request and the recorded responses, shared by all connections."""

    def __init__(self, options: LoadOptions) -> None:
        pictures = [base64.b64decode(text) for text in json.loads(Path(options.pictures).read_bytes())]
        self._requests = cycle(build_requests(pictures, options.tokens))
        self._left = options.requests
        self._open = options.connections
        self._ended = asyncio.get_running_loop().create_future()
        self._ends_at = float("inf") if options.seconds is None else time.perf_counter() + options.seconds
        self.began = time.perf_counter()
        self.ended = 0.0
        self.sent: list[float] = []
        self.answered: list[float] = []
        self.refused: dict[str, int] = {}

    def next_request(self) -> bytes | None:
        """Return the next request, or None at the end."""
        if self._left == 0 or time.perf_counter() >= self._ends_at:
            self.ended = self.ended or time.perf_counter()
            return None
        if self._left is not None:
            self._left -= 1
        return next(self._requests)

    def record(self, sent: float, answered: float, message: bytes) -> None:
        """Record one response."""
        if (status := parse_status(message)) != 200:
            self.refused[str(status)] = self.refused.get(str(status), 0) + 1
        self.sent.append(sent)
        self.answered.append(answered)

    def connection_closed(self, error: Exception | None) -> None:
        """Record that a connection was closed; an early one is an error."""
        self._open -= 1
        if self._ended.done():
            return
        if self.ended == 0.0:
            self._ended.set_exception(error or ConnectionError("the server closed a connection"))
        elif self._open == 0:
            self._ended.set_result(None)

    async def run(self, options: LoadOptions) -> LoadReport:
        """Send requests until the end, and wait for all responses."""
        loop = asyncio.get_running_loop()
        connections = (
            loop.create_connection(lambda: LoadConnection(self), "127.0.0.1", options.port)
            for _ in range(options.connections)
        )
        await asyncio.gather(*connections)
        await self._ended
        return LoadReport(self.began, self.ended, self.sent, self.answered, self.refused)


async def generate_load(options: LoadOptions) -> LoadReport:
    """Generate the load and report it."""
    return await LoadGenerator(options).run(options)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(generate_load(LoadOptions(**json.loads(sys.argv[1])))))))
