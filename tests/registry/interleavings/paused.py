"""Work that stops at a named point until it is told to go on, so that anything can happen in between."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
PATIENCE_S = 30


class Paused(Generic[T]):
    """A call in a thread of its own, which waits at the first of its points that has this name."""

    _mine = threading.local()

    def __init__(self, work: Callable[[], T], point: str) -> None:
        self._work, self._point = work, point
        self._is_there, self._may_go_on = threading.Event(), threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._is_there.wait(PATIENCE_S), f"{point!r} was never reached"

    @property
    def has_ended(self) -> bool:
        """Whether it never came to its point, or has gone on from there."""
        return self._has_ended

    def finish(self) -> T:
        """Lets it go on, and returns what it returned or raises what it raised."""
        self._may_go_on.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"it hangs after {self._point!r}"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it returned

    def _run(self) -> None:
        Paused._mine.pause = self._pause
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._has_ended = True
            self._is_there.set()  # also if it ended before

    def _pause(self, point: str) -> None:
        if point == self._point and not self._is_there.is_set():
            self._is_there.set()
            assert self._may_go_on.wait(PATIENCE_S)


def reach(point: str) -> None:
    """What `registry.failpoints.on_reach` is set to: only threads of `Paused` stop."""
    pause = getattr(Paused._mine, "pause", None)
    if pause is not None:
        pause(point)
