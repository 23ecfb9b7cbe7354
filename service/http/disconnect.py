"""Clients that leave: what is computed for nobody is dropped."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

T = TypeVar("T")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine never uses
    """What the work returns; ClientDisconnect, and the end of the work, once the client is gone.

    The body must have been read before.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
        del working, watching  # an error knows this frame: if it were known here, both would stay, with the pictures


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
