"""Which predictions are under way: what one of them has begun to use may come into memory until it has ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count


class InFlightRequests:
    """Counts predictions in and out; used within the event loop alone."""

    def __init__(self) -> None:
        self._numbers = count()
        self._running: set[int] = set()

    @contextmanager
    def track(self) -> Iterator[None]:
        """The time of one prediction, from before it reads what it may use until its answer leaves."""
        number = next(self._numbers)
        self._running.add(number)
        try:
            yield
        finally:
            self._running.remove(number)

    def mark(self) -> int:
        """A moment: every flight so far began before it."""
        return next(self._numbers)

    def have_finished(self, mark: int) -> bool:
        """Whether every flight that began before the mark has ended."""
        return all(number > mark for number in self._running)
