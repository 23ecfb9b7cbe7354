"""Blocking work leaves the event loop here: a bounded thread pool, a read timeout, detached threads, a user limit."""

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar
from uuid import UUID

from anyio import CancelScope, CapacityLimiter, WouldBlock, to_thread

from registry.errors import DatabaseUnreachable
from service.errors import Busy

LOOK_SECONDS = 10.0

T = TypeVar("T")


class ThreadPool:
    """So many threads for one kind of work; made within the event loop."""

    def __init__(self, threads: int) -> None:
        self._places = CapacityLimiter(threads)
        self._threads = CapacityLimiter(math.inf)  # whoever has a place has a thread
        # For what is left behind: half of the price of the others, which may come back to the event loop meanwhile.
        self._quick_threads = ThreadPoolExecutor(threads, "door")

    async def run(self, work: Callable[[], T], *, abandon_on_cancel: bool = False) -> T:
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
        if abandon_on_cancel:
            working = asyncio.get_running_loop().run_in_executor(self._quick_threads, work)
        else:
            working = asyncio.ensure_future(to_thread.run_sync(work, limiter=self._threads))
        working.add_done_callback(partial(self._give_back, place))
        try:
            if abandon_on_cancel:
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


async def look(pool: ThreadPool, work: Callable[[], T], seconds: float | None = None) -> T:
    """What the work reads, or DatabaseUnreachable when the seconds are over; then the work is left behind."""
    seconds = LOOK_SECONDS if seconds is None else seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            return await pool.run(work, abandon_on_cancel=True)
    except TimeoutError:
        if not limit.expired():
            raise
        raise DatabaseUnreachable(f"the database did not answer within {seconds:.1f} s") from None


def run_detached(name: str, work: Callable[[], T]) -> asyncio.Future[T]:
    """What the work returns or raises; cancelling it stops nothing, but the end of the process cuts it off."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(done: Callable[[], None]) -> None:
        if not outcome.done():  # nobody has cancelled it
            done()

    def run() -> None:
        try:
            done = partial(outcome.set_result, work())
        except BaseException as error:  # whatever it is, the one who waits is told
            done = partial(outcome.set_exception, error)
        with suppress(RuntimeError):  # the event loop has ended, and with it everyone who waited
            loop.call_soon_threadsafe(settle, done)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


class UserLimiter:
    """So many, of which nobody has more than half; taken and left within the event loop."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._most_of_one = max(1, count // 2)
        self._taken: Counter[UUID] = Counter()

    @contextmanager
    def acquire(self, user: UUID, refusal: str) -> Iterator[None]:
        """A place for as long as the block lasts; Busy with the refusal where there is none."""
        # Nobody else comes in between the look and the taking: there is no await.
        if self._taken.total() >= self._count or self._taken[user] >= self._most_of_one:
            raise Busy(refusal)
        self._taken[user] += 1
        try:
            yield
        finally:
            self._taken -= Counter([user])  # who has none left is not remembered
