"""The shared recorder of a race: threads add their events, and wait for events of others."""

import threading

from tests.stress.race.history import History, PredictCall, Write

WAIT_SECONDS = 120.0


class Recorder:
    """Collects the history, and ends the race when enough is recorded or a thread fails."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._calls: list[PredictCall] = []
        self._more = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None
        self.alive: tuple[str, ...] = ()  # sources that exist as far as is known

    @property
    def is_over(self) -> bool:
        """Whether the threads must stop."""
        return self._is_over

    def add_write(self, write: Write) -> None:
        """Add a completed write."""
        with self._more:
            self._writes.append(write)
            gone = (write.source,) if write.operation == "delete" else ()
            come = (write.source,) if write.operation == "publish" else ()
            self.alive = tuple(source for source in self.alive if source not in gone) + come

    def add_call(self, call: PredictCall) -> None:
        """Add a completed prediction."""
        with self._more:
            self._calls.append(call)
            self._more.notify_all()

    def await_calls(self, more: int) -> None:
        """Wait for `more` further answers or the end of the race."""
        with self._more:
            target = len(self._calls) + more
            came = self._more.wait_for(lambda: self._is_over or len(self._calls) >= target, WAIT_SECONDS)
        assert came, f"no {more} answers within {WAIT_SECONDS} s"

    def finish(self, failure: BaseException | None = None) -> None:
        """End the race; the first failure is kept."""
        with self._more:
            self._is_over = True
            self._failure = self._failure or failure
            self._more.notify_all()

    def require_sound(self) -> None:
        """Raise the first failure of a thread, if there was one."""
        if self._failure is not None:
            raise self._failure

    def history(self) -> History:
        """Return the history so far."""
        with self._more:
            return History(tuple(self._writes), tuple(self._calls))
