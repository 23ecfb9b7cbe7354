"""Calls that pause at a failpoint until they are resumed, so that other steps can run in between."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
TIMEOUT_S = 30


class PausedCall(Generic[T]):
    """A call in a thread of its own, which pauses at the first failpoint of this name."""

    _local = threading.local()

    def __init__(self, work: Callable[[], T], point: str) -> None:
        self._work, self._point = work, point
        self._has_paused, self._may_resume = threading.Event(), threading.Event()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._has_paused.wait(TIMEOUT_S), f"{point!r} was never reached"

    @property
    def has_ended(self) -> bool:
        """Return whether the call has returned or raised."""
        return self._has_ended

    def finish(self) -> T:
        """Resume the call, and return or raise its result."""
        self._may_resume.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), f"the call hangs after {self._point!r}"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # set, since it did not raise

    def _run(self) -> None:
        PausedCall._local.pause = self._pause
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._has_ended = True
            self._has_paused.set()  # also if it ended without a pause

    def _pause(self, point: str) -> None:
        if point == self._point and not self._has_paused.is_set():
            self._has_paused.set()
            assert self._may_resume.wait(TIMEOUT_S)


def pause_at_failpoint(point: str) -> None:
    """Pause a thread of a `PausedCall`; tests set `registry.failpoints.on_hit` to this."""
    pause = getattr(PausedCall._local, "pause", None)
    if pause is not None:
        pause(point)
