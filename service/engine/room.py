"""Room for bytes: whoever needs some waits until it is free, first come, first served."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Room:
    """A number of bytes that are lent out and come back; on the event loop only."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = self._free = size_bytes
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[None]:
        """Inside, that many bytes are the caller's; who needs more than there is gets all of it, alone."""
        size = min(size_bytes, self.size_bytes)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, place))
        self._advance()
        try:
            await place
            yield
        finally:
            # A place that was cancelled after it was given has its bytes too.
            if (size, place) in self._line:
                self._line.remove((size, place))
            else:
                self._free += size
            self._advance()

    def _advance(self) -> None:
        while self._line and self._line[0][0] <= self._free:
            size, place = self._line.popleft()
            self._free -= size
            if not place.done():
                place.set_result(None)
