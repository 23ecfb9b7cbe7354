"""Threads that make calls and record them: each may wait for calls of the others, and the first failure ends all."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import httpx

WAIT_SECONDS = 300.0

T = TypeVar("T")


class CallLog(Generic[T]):
    """The calls of all threads in the order in which they ended."""

    def __init__(self) -> None:
        self.calls: list[T] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether the threads must stop."""
        return self._is_over

    def add(self, call: T) -> None:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()

    def await_calls(self, more: int) -> None:
        """Wait for `more` further calls, or the end of the load."""
        with self._changed:
            target_count = len(self.calls) + more
            came = self._changed.wait_for(lambda: self._is_over or len(self.calls) >= target_count, WAIT_SECONDS)
        assert came, f"no {more} calls ended within {WAIT_SECONDS} s"

    def await_end(self, seconds: float) -> None:
        """Wait for the end of the load, at most so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over, seconds)

    @contextmanager
    def running(self, *work: Callable[[], object]) -> Iterator[None]:
        """Run each function in a thread; at the end stop and join all, and raise the first failure of a thread."""
        threads = [threading.Thread(target=self._run, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._finish()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # raised again by the thread that joins all
            self._finish(error)

    def _finish(self, failure: BaseException | None = None) -> None:
        with self._changed:
            self._is_over = True
            self._failure = self._failure or failure
            self._changed.notify_all()


def record_outcomes(log: CallLog[str], client: httpx.Client, send: Callable[[httpx.Client], str]) -> None:
    """Send requests without pause until the end of the load; a broken connection is an outcome, too."""
    with client:
        while not log.is_over:
            try:
                log.add(send(client))
            except httpx.TransportError as error:
                log.add(repr(error))
