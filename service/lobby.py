"""Who is connected and asks nothing at the moment: when the house is full, whoever has waited longest is let go."""

from collections import OrderedDict
from typing import Protocol


class Waiting(Protocol):
    """A connection on which no request is under way."""

    def let_go(self) -> None:
        """Ends it."""


class Lobby:
    """Those who wait, in the order in which they began to; on the event loop only."""

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def is_admitted(self, comer: Waiting, connections: int) -> bool:
        """Whether there is room for one more, with whom there are so many: made, if need be, by whoever waits longest.

        Whoever sends a request does so at once, and waits for nothing; so half-sent requests go before honest ones.
        """
        if connections > self.max_connections:
            if not self._waiting:
                return False
            longest, _ = self._waiting.popitem(last=False)
            longest.let_go()
        self._waiting[comer] = None
        return True

    def enter(self, waiting: Waiting) -> None:
        """Its request is answered, and the next has not come."""
        self._waiting[waiting] = None

    def leave(self, asking: Waiting) -> None:
        """It has asked, or is gone; it may be told twice."""
        self._waiting.pop(asking, None)
