"""Where the threads of a race write down what they did; whoever waits for others to get on waits here."""

import threading

from tests.stress.race.history import Ask, History, Write

PATIENCE_SECONDS = 120.0


class Recorder:
    """A history in the making, and the end of the race: when enough is recorded, or somebody fails."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._asks: list[Ask] = []
        self._more = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None
        self.alive: tuple[str, ...] = ()  # sources that can be named, as far as is known

    @property
    def is_over(self) -> bool:
        """Whether to stop."""
        return self._is_over

    def add_write(self, write: Write) -> None:
        """Something was done."""
        with self._more:
            self._writes.append(write)
            gone = (write.source,) if write.operation == "delete" else ()
            come = (write.source,) if write.operation == "publish" else ()
            self.alive = tuple(source for source in self.alive if source not in gone) + come

    def add_ask(self, ask: Ask) -> None:
        """Something was asked and answered."""
        with self._more:
            self._asks.append(ask)
            self._more.notify_all()

    def await_asks(self, more: int) -> None:
        """So many more answers have come, or the race is over."""
        with self._more:
            wanted = len(self._asks) + more
            came = self._more.wait_for(lambda: self._is_over or len(self._asks) >= wanted, PATIENCE_SECONDS)
        assert came, "no answers come any more"

    def finish(self, failure: BaseException | None = None) -> None:
        """Everybody stops; the first failure is what is wrong."""
        with self._more:
            self._is_over = True
            self._failure = self._failure or failure
            self._more.notify_all()

    def require_sound(self) -> None:
        """Raises what a thread failed with."""
        if self._failure is not None:
            raise self._failure

    def history(self) -> History:
        """All so far."""
        with self._more:
            return History(tuple(self._writes), tuple(self._asks))
