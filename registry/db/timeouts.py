"""A PostgreSQL connection with a response timeout, which treats a server that hangs like one that is down."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

T = TypeVar("T")


class TimeoutConnection(Connection[TupleRow]):
    """A connection that closes itself, with an OperationalError, if the server does not respond in time.

    The server's own timeouts do not help if the server, or a proxy before it, is stopped or stuck.
    """

    response_timeout_seconds: float | None = None  # no limit

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for the server with the timeout; psycopg calls this for each step of the protocol."""
        if self.response_timeout_seconds is not None:
            gen = self._limit(gen, self.response_timeout_seconds)
        return super().wait(gen, interval) if timeout is None else super().wait(gen, interval, timeout)

    def _limit(self, gen: PQGen[T], seconds: float) -> PQGen[T]:
        deadline = time.monotonic() + seconds
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if not ready and time.monotonic() > deadline:
                    self.pgconn.finish()  # the state of the protocol is unknown
                    raise OperationalError(f"no response for {seconds:g} s")
                awaited = gen.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # the generator's T


def make_connector(response_timeout_seconds: float | None) -> Callable[..., TimeoutConnection]:
    """Return the connect function for SQLAlchemy, with a response timeout; None: no limit."""

    def connect(dialect: Any, record: Any, arguments: Any, options: Any) -> TimeoutConnection:  # noqa: ARG001
        connection = TimeoutConnection.connect(*arguments, **options)
        connection.response_timeout_seconds = response_timeout_seconds
        return connection

    return connect
