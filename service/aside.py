"""Work that nobody can interrupt and the process need not wait for: each in a thread that can be left behind."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def start_aside(name: str, work: Callable[[], T]) -> asyncio.Future[T]:
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
