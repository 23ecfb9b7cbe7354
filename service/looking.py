"""Looks into the registry that a request waits for: a database that hangs answers nothing, but keeps nobody."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from registry.errors import DatabaseUnreachable
from service.door import Door

LOOK_SECONDS = 10.0

T = TypeVar("T")


async def look(door: Door, work: Callable[[], T], seconds: float | None = None) -> T:
    """What the work reads, or DatabaseUnreachable when the seconds are over; then the work is left behind."""
    seconds = LOOK_SECONDS if seconds is None else seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            return await door.through(work, leave_behind=True)
    except TimeoutError:
        if not limit.expired():
            raise
        raise DatabaseUnreachable(f"the database did not answer within {seconds:.1f} s") from None
