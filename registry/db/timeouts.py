"""PostgreSQL, asked with patience that ends: a server that hangs is as good as one that is away."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

T = TypeVar("T")


class TimeoutConnection(Connection[TupleRow]):
    """A connection that is closed, with an OperationalError, once its server has kept an answer back for too long.

    The server's own limits do not help against a server, or a proxy before it, that is stopped or stuck.
    """

    response_timeout_seconds: float | None = None  # for ever

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """What the server answers; each step of its conversation comes through here."""
        if self.response_timeout_seconds is not None:
            gen = self._limited(gen, self.response_timeout_seconds)
        return super().wait(gen, interval) if timeout is None else super().wait(gen, interval, timeout)

    def _limited(self, gen: PQGen[T], seconds: float) -> PQGen[T]:
        end = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    self.pgconn.finish()  # nobody can tell what would come next
                    raise OperationalError(f"it has said nothing for {seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # of its generator, as T


def make_connector(response_timeout_seconds: float | None) -> Callable[..., TimeoutConnection]:
    """How SQLAlchemy connects to a server that has so many seconds for each answer; None is for ever."""

    def connect(dialect: Any, record: Any, arguments: Any, options: Any) -> TimeoutConnection:  # noqa: ARG001
        connection = TimeoutConnection.connect(*arguments, **options)
        connection.response_timeout_seconds = response_timeout_seconds
        return connection

    return connect
