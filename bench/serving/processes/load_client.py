"""The client of every contender, a process of its own: `python -m bench.serving.processes.load_client PLAN`.

So many connections, each with one request under way, until the time or the number of requests is over. It prints
when each request was sent and answered, by a clock that all processes of the machine share.
"""

import asyncio
import base64
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

from bench.serving.http_messages import Arriving, requests_of, status_of


@dataclass(frozen=True)
class Plan:
    """Whom to ask, about which pictures, in whose name, how many at once, and how long."""

    port: int
    pictures: str  # a file of JSON: a list of pictures in base64
    tokens: list[str | None]
    connections: int
    seconds: float | None = None
    requests: int | None = None


@dataclass(frozen=True)
class Report:
    """What came of it."""

    began: float
    ended: float  # the time to send was over; what was under way then is answered all the same
    sent: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)  # answers other than 200, by their status


class Connection(asyncio.Protocol):
    """Asks, and asks again as soon as it is answered."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._arriving = Arriving()
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        message = self._arriving.take(data)
        if message is not None:
            self._load.note(self._sent, time.perf_counter(), message)
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.leave(exc)

    def _ask(self) -> None:
        request = self._load.next()
        if request is None:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)


class Load:
    """What all connections share: what to ask next, and what came back."""

    def __init__(self, plan: Plan) -> None:
        pictures = [base64.b64decode(text) for text in json.loads(Path(plan.pictures).read_bytes())]
        self._requests = cycle(requests_of(pictures, plan.tokens))
        self._left = plan.requests
        self._open = plan.connections
        self._has_ended = asyncio.get_running_loop().create_future()
        self._ends_at = float("inf") if plan.seconds is None else time.perf_counter() + plan.seconds
        self.began = time.perf_counter()
        self.ended = 0.0
        self.sent: list[float] = []
        self.answered: list[float] = []
        self.refused: dict[str, int] = {}

    def next(self) -> bytes | None:
        """The next request, while there are any."""
        if self._left == 0 or time.perf_counter() >= self._ends_at:
            self.ended = self.ended or time.perf_counter()
            return None
        if self._left is not None:
            self._left -= 1
        return next(self._requests)

    def note(self, sent: float, answered: float, message: bytes) -> None:
        """Takes down one answer."""
        if (status := status_of(message)) != 200:
            self.refused[str(status)] = self.refused.get(str(status), 0) + 1
        self.sent.append(sent)
        self.answered.append(answered)

    def leave(self, fault: Exception | None) -> None:
        """One connection is closed."""
        self._open -= 1
        if self._has_ended.done():
            return
        if self.ended == 0.0:
            self._has_ended.set_exception(fault or ConnectionError("the server closed a connection"))
        elif self._open == 0:
            self._has_ended.set_result(None)

    async def run(self, plan: Plan) -> Report:
        """Everything that was sent is answered."""
        loop = asyncio.get_running_loop()
        opening = (
            loop.create_connection(lambda: Connection(self), "127.0.0.1", plan.port) for _ in range(plan.connections)
        )
        await asyncio.gather(*opening)
        await self._has_ended
        return Report(self.began, self.ended, self.sent, self.answered, self.refused)


async def ask(plan: Plan) -> Report:
    """Carries out the plan."""
    return await Load(plan).run(plan)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(ask(Plan(**json.loads(sys.argv[1])))))))
