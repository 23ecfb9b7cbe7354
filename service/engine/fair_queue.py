"""FairQueue: how many pictures are under way, and whose is next when a place comes free.

Users take turns, so that one user's flood delays another's single picture by one place at most. Everything
happens on the event loop; other threads may only look how many there are, at a copy.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from uuid import UUID

from service.engine.errors import Overloaded


class Ticket:
    """One picture's turn: `granted` is done when it may begin, or tells that its place in the line was lost."""

    def __init__(self, user: UUID) -> None:
        self.user = user
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_going = False


class FairQueue:
    """A bounded number of places, and one bounded line for each user."""

    def __init__(self, places: int, waiting: int, seconds_each: Callable[[], float]) -> None:
        self._places = places
        # Even when one user's pictures all wait for something slow, another's can begin.
        self._places_each = max(1, places * 3 // 4)
        self._limit = places + waiting
        self._seconds_each = seconds_each
        self._lines: dict[UUID, deque[Ticket]] = {}  # the first user is the next; no line is empty
        self._going: dict[UUID, int] = {}

    @property
    def waiting(self) -> int:
        """Pictures that wait for a place."""
        return sum(map(len, list(self._lines.values())))

    @property
    def going(self) -> int:
        """Pictures that have a place."""
        return sum(list(self._going.values()))

    def join(self, user: UUID, count: int) -> list[Ticket]:
        """FairQueue for that many pictures, all of them or Overloaded; whoever has joined leaves, whatever happens."""
        self._make_room(user, count)
        turns = [Ticket(user) for _ in range(count)]
        if turns:
            self._lines.setdefault(user, deque()).extend(turns)
        self._advance()
        return turns

    def leave(self, turn: Ticket) -> None:
        """The turn is over, or is not wanted any more; it may be told twice."""
        if turn.is_going:
            turn.is_going = False
            self._going[turn.user] -= 1
            if not self._going[turn.user]:
                del self._going[turn.user]
        elif turn in (line := self._lines.get(turn.user, ())):
            self._remove(turn.user, line.index(turn))
        if not turn.granted.cancel() and not turn.granted.cancelled():
            turn.granted.exception()  # seen, even if whoever waited was cancelled first
        self._advance()

    def _advance(self) -> None:
        going = self.going
        while going < self._places:
            user = next((user for user in self._lines if self._going.get(user, 0) < self._places_each), None)
            if user is None:
                return
            turn = self._lines[user][0]
            self._remove(user, 0)
            if user in self._lines:
                self._lines[user] = self._lines.pop(user)  # to the end: the others come first
            if turn.granted.done():
                continue  # whoever waited for it was cancelled, and will leave
            turn.is_going = True
            self._going[user] = self._going.get(user, 0) + 1
            going += 1
            turn.granted.set_result(None)

    def _make_room(self, user: UUID, count: int) -> None:
        """Refuse what does not fit; but whoever waits with less displaces the last of whoever waits with most."""
        excess = self.going + self.waiting + count - self._limit
        if excess <= 0:
            return
        greediest = max(self._lines, key=lambda other: len(self._lines[other]), default=user)
        own = len(self._lines.get(user, ())) + count
        if greediest == user or len(self._lines[greediest]) - excess < own:
            raise self._overloaded()
        for _ in range(excess):
            turn = self._lines[greediest][-1]
            self._remove(greediest, -1)
            if not turn.granted.done():
                turn.granted.set_exception(self._overloaded())

    def _remove(self, user: UUID, index: int) -> None:
        line = self._lines[user]
        del line[index]
        if not line:
            del self._lines[user]

    def _overloaded(self) -> Overloaded:
        waiting = self.going + self.waiting
        seconds = min(self._seconds_each() * waiting, 30)
        return Overloaded(f"{waiting} pictures are waiting already: ask again in a moment", seconds)
