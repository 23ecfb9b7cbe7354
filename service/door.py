"""The door by which blocking work leaves the event loop."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from service.errors import Busy

T = TypeVar("T")


class Door:
    """So many threads for one kind of work; made within the event loop."""

    def __init__(self, threads: int) -> None:
        self._limiter = CapacityLimiter(threads)

    async def through(self, work: Callable[[], T], *, leave_behind: bool = False) -> T:
        """What the work returns or raises; it waits for a free thread.

        Who is cancelled waits for the work to end, so that nothing is undone under it, unless it is left behind.
        """
        return await to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=leave_behind)

    async def through_now(self, work: Callable[[], T], refusal: str) -> T:
        """As `through`, but Busy with the refusal where it would have to wait."""
        if self._limiter.available_tokens < 1:
            raise Busy(refusal)
        return await self.through(work)
