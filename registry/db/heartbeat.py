"""Renews a lease or a write claim from a thread of its own while a long job runs."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from registry.errors import LeaseLost

JOIN_SECONDS = 5.0


class Heartbeat:
    """Calls `renew` until the block ends or `renew` raises LeaseLost.

    Other errors are retried, because the database may be back in time. When `lifetime_seconds` pass without a renewal,
    the lease counts as lost too: another process may have it.
    """

    def __init__(
        self,
        renew: Callable[[], None],
        *,
        every_seconds: float,
        lifetime_seconds: float,
        renewed_at: float | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """`renewed_at`: a monotonic time before the lease was taken. `on_failure` gets the first error of an outage."""
        self._renew = renew
        self._every_seconds = every_seconds
        self._lifetime_seconds = lifetime_seconds
        self._renewed_at = time.monotonic() if renewed_at is None else renewed_at
        self._on_failure = on_failure
        self._stop = threading.Event()
        self._lost: LeaseLost | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def is_late(self) -> bool:
        """Whether the lease has run out because it could not be renewed."""
        return time.monotonic() - self._renewed_at > self._lifetime_seconds

    def check(self) -> None:
        """Raise LeaseLost as soon as it is known that the job cannot be completed."""
        if self._lost is not None:
            raise LeaseLost(str(self._lost)) from self._lost
        if self.is_late:
            raise LeaseLost(f"the lease ran out: it could not be renewed within {self._lifetime_seconds:g} seconds")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # A hanging database must not delay the removal of the job's files; a late renewal does no harm.
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        is_failing = False
        while not self._stop.wait(self._every_seconds):
            started_at = time.monotonic()
            try:
                self._renew()
            except LeaseLost as error:
                self._lost = error
                return
            except Exception as error:  # the database may be back before the lease runs out
                if not is_failing and self._on_failure is not None:
                    self._on_failure(error)
                is_failing = True
            else:
                self._renewed_at = started_at
                is_failing = False
