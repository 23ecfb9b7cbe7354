"""Decoding: pictures become tensors in threads, which users share fairly."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from torch import Tensor

from alacarte.prompting.backbone.preprocess import Preprocessing, decode
from alacarte.prompting.errors import PictureDecodeError
from registry.errors import InvalidPicture
from service.engine.device import use_one_thread
from service.engine.fair_queue import FairQueue

SECONDS_EACH = 0.05  # typical for a large photograph


class PictureDecoder:
    """A pool of decode threads behind a fair queue; called on the event loop only."""

    def __init__(self, threads: int, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "decode", use_one_thread)
        self._queue = FairQueue(threads, max_waiting, lambda: SECONDS_EACH)

    async def decode(self, picture: bytes, preprocessing: Preprocessing, name: str, user: UUID) -> Tensor:
        """Return the picture as (3, S, S). Raise InvalidPicture, with this name in its message."""
        (ticket,) = self._queue.enqueue(user, 1)
        try:
            await ticket.granted
            loop = asyncio.get_running_loop()
            decoding = loop.run_in_executor(self._threads, decode_picture, picture, preprocessing, name)
        except BaseException:
            self._queue.release(ticket)
            raise
        # A cancelled caller's thread is still busy: its ticket ends with the thread.
        decoding.add_done_callback(lambda _: self._queue.release(ticket))
        return await asyncio.shield(decoding)

    def shutdown(self) -> None:
        """Wait for the threads to end, and drop what has not started."""
        self._threads.shutdown(cancel_futures=True)


def decode_picture(picture: bytes, preprocessing: Preprocessing, name: str) -> Tensor:
    """Return the picture as (3, S, S). Raise InvalidPicture, with this name in its message."""
    try:
        return preprocessing(decode(picture))
    except PictureDecodeError as error:
        raise InvalidPicture(str(error).replace("the picture", name, 1)) from error
