"""Admission to the engine: a fair queue for pictures and decode threads, and a byte budget for prompts being loaded.

Users take turns, so one user's flood delays another user's single picture by one place at most. Everything runs on the
event loop; other threads may only read the counts.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from service.engine.errors import Overloaded


class Ticket:
    """One picture's place in the queue. `granted` resolves when it may start, or fails when it was displaced."""

    def __init__(self, user: UUID) -> None:
        self.user = user
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_active = False


class FairQueue:
    """A bounded number of active tickets, and a bounded queue that serves users round-robin."""

    def __init__(self, max_active: int, max_waiting: int, seconds_each: Callable[[], float]) -> None:
        self._max_active = max_active
        # Leave capacity for other users while one user's pictures all wait for something slow.
        self._max_active_per_user = max(1, max_active * 3 // 4)
        self._limit = max_active + max_waiting
        self._seconds_each = seconds_each
        self._waiting: dict[UUID, deque[Ticket]] = {}  # the next user first; no queue is empty
        self._active: dict[UUID, int] = {}

    @property
    def waiting(self) -> int:
        """Return the number of tickets that are not granted yet."""
        return sum(map(len, list(self._waiting.values())))

    @property
    def active(self) -> int:
        """Return the number of tickets that are granted and not released."""
        return sum(list(self._active.values()))

    def enqueue(self, user: UUID, count: int) -> list[Ticket]:
        """Admit `count` tickets, all or none (Overloaded). The caller must release every ticket."""
        self._displace(user, count)
        tickets = [Ticket(user) for _ in range(count)]
        if tickets:
            self._waiting.setdefault(user, deque()).extend(tickets)
        self._advance()
        return tickets

    def release(self, ticket: Ticket) -> None:
        """End a ticket, whether it is waiting, active or already released."""
        if ticket.is_active:
            ticket.is_active = False
            self._active[ticket.user] -= 1
            if not self._active[ticket.user]:
                del self._active[ticket.user]
        elif ticket in (queue := self._waiting.get(ticket.user, ())):
            self._remove(ticket.user, queue.index(ticket))
        if not ticket.granted.cancel() and not ticket.granted.cancelled():
            ticket.granted.exception()  # mark it as retrieved: the waiter may have been cancelled first
        self._advance()

    def _advance(self) -> None:
        """Grant waiting tickets, one user after the other, while there is capacity."""
        active = self.active
        while active < self._max_active:
            user = next((user for user in self._waiting if self._active.get(user, 0) < self._max_active_per_user), None)
            if user is None:
                return
            ticket = self._waiting[user][0]
            self._remove(user, 0)
            if user in self._waiting:
                self._waiting[user] = self._waiting.pop(user)  # to the end, behind the other users
            if ticket.granted.done():
                continue  # its waiter was cancelled and will release it
            ticket.is_active = True
            self._active[user] = self._active.get(user, 0) + 1
            active += 1
            ticket.granted.set_result(None)

    def _displace(self, user: UUID, count: int) -> None:
        """Make room in a full queue at the cost of the user with the most waiting tickets, or raise Overloaded."""
        excess = self.active + self.waiting + count - self._limit
        if excess <= 0:
            return
        heaviest = max(self._waiting, key=lambda other: len(self._waiting[other]), default=user)
        own = len(self._waiting.get(user, ())) + count
        if heaviest == user or len(self._waiting[heaviest]) - excess < own:
            raise self._overloaded()
        for _ in range(excess):
            ticket = self._waiting[heaviest][-1]
            self._remove(heaviest, -1)
            if not ticket.granted.done():
                ticket.granted.set_exception(self._overloaded())

    def _remove(self, user: UUID, index: int) -> None:
        queue = self._waiting[user]
        del queue[index]
        if not queue:
            del self._waiting[user]

    def _overloaded(self) -> Overloaded:
        count = self.active + self.waiting
        retry_after = min(self._seconds_each() * count, 30)
        return Overloaded(f"the queue is full ({count} pictures); retry later", retry_after)


class ByteBudget:
    """Bytes that are reserved in the order of the requests. Only active tickets reserve, so no user takes all of it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = self._free_bytes = size_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size_bytes: int) -> AsyncIterator[None]:
        """Reserve this many bytes for the block. A request for more than the budget gets all of it, alone."""
        size_bytes = min(size_bytes, self.size_bytes)
        entry = (size_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._advance()
        try:
            await entry[1]
            yield
        finally:
            # An entry that was cancelled after it was granted owns its bytes, too.
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:
                self._free_bytes += size_bytes
            self._advance()

    def _advance(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free_bytes:
            size_bytes, granted = self._waiting.popleft()
            self._free_bytes -= size_bytes
            if not granted.done():
                granted.set_result(None)
