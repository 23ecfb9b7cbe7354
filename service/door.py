"""The door by which blocking work leaves the event loop."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, WouldBlock, to_thread

T = TypeVar("T")


class Door:
    """So many threads for one kind of work; made within the event loop."""

    def __init__(self, threads: int) -> None:
        self._places = CapacityLimiter(threads)
        self._threads = CapacityLimiter(math.inf)  # whoever has a place has a thread
        # For what is left behind: half of the price of the others, which may come back to the event loop meanwhile.
        self._quick_threads = ThreadPoolExecutor(threads, "door")

    async def through(self, work: Callable[[], T], *, leave_behind: bool = False) -> T:
        """What the work returns or raises; it waits for a free thread.

        Whoever's scope is cancelled waits for the work to end, so that nothing is undone under it, unless it is left
        behind; a task that is cancelled goes at once. Either way the thread is not free before the work has ended.
        """
        place = object()
        try:
            self._places.acquire_on_behalf_of_nowait(place)
        except WouldBlock:
            await self._places.acquire_on_behalf_of(place)
        working: asyncio.Future[T]
        if leave_behind:
            working = asyncio.get_running_loop().run_in_executor(self._quick_threads, work)
        else:
            working = asyncio.ensure_future(to_thread.run_sync(work, limiter=self._threads))
        working.add_done_callback(partial(self._give_back, place))
        try:
            if leave_behind:
                return await asyncio.shield(working)
            with CancelScope(shield=True):
                await asyncio.wait([working])
            return working.result()
        finally:
            del working  # an error knows this frame: if it were known here, both would stay

    def _give_back(self, place: object, working: asyncio.Future[T]) -> None:
        self._places.release_on_behalf_of(place)
        if not working.cancelled():
            working.exception()  # seen, even if nobody waits any more
