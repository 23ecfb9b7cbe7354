"""How blocking work leaves the event loop: `ThreadPool.run`, and `run_detached` for work that never delays an exit."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar
from uuid import UUID

from anyio import CancelScope

from registry.errors import DatabaseUnreachable
from service.errors import Busy

T = TypeVar("T")


class ThreadPool:
    """A bounded number of threads for one kind of work."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, "blocking")

    async def run(self, work: Callable[[], T], *, timeout_s: float | None = None, abandon_on_cancel: bool = False) -> T:
        """Wait for a free thread, and return what the work returns or raises.

        A cancelled scope waits until the work has ended, unless `abandon_on_cancel`; a cancelled task never waits. With
        a timeout, DatabaseUnreachable is raised and the work is abandoned. Abandoned work keeps its thread until it
        ends; work that has not begun is dropped.
        """
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        limit: asyncio.Timeout | None = None
        try:
            if timeout_s is None and not abandon_on_cancel:
                with CancelScope(shield=True):
                    await asyncio.wait([future])
                return future.result()
            async with asyncio.timeout(timeout_s) as limit:
                return await future
        except TimeoutError:
            if limit is None or not limit.expired():
                raise
            raise DatabaseUnreachable(f"the database did not answer within {timeout_s:.1f} s") from None
        finally:
            future.cancel()
            del future  # The error's traceback holds this frame, and the future holds the error: break the cycle.


class UploadPool:
    """Threads for uploads, of which one user occupies at most half; it refuses instead of queueing."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPool(threads)
        self._threads = threads
        self._threads_per_user = max(1, threads // 2)
        self._running: Counter[UUID] = Counter()

    async def run(self, user: UUID, work: Callable[[], T]) -> T:
        """Return what the work returns or raises; Busy, before it begins, if no thread is free for this user."""
        # There is no await between the check and the increment, so no other upload comes in between.
        if self._running.total() >= self._threads or self._running[user] >= self._threads_per_user:
            raise Busy("too many uploads are in progress: try again in a moment")
        self._running[user] += 1
        try:
            return await self._pool.run(work)
        finally:
            self._running -= Counter([user])  # drops users whose count is 0


def run_detached(name: str, work: Callable[[], T]) -> asyncio.Future[T]:
    """Run the work in a daemon thread: cancelling the future does not stop it, the end of the process does."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def resolve(set_outcome: Callable[[], None]) -> None:
        if not outcome.done():  # it may have been cancelled
            set_outcome()

    def run() -> None:
        try:
            set_outcome = partial(outcome.set_result, work())
        except BaseException as error:  # also SystemExit: the outcome must be set
            set_outcome = partial(outcome.set_exception, error)
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(resolve, set_outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome
