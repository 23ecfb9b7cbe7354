"""Pictures on their way to the device: decoded in threads, of which no user has all, so that a flood delays nobody."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from torch import Tensor

from alacarte.prompting.backbone.preprocess import Preprocessing, decode
from alacarte.prompting.errors import PictureDecodeError as NotReadable
from registry.errors import InvalidPicture
from service.engine.device import use_one_thread
from service.engine.fair_queue import FairQueue

SECONDS_EACH = 0.05  # about as long as a large photograph takes


class Decoders:
    """So many threads, which users take in turns; called on the event loop only."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "decode", use_one_thread)
        self._turns = FairQueue(threads, waiting, lambda: SECONDS_EACH)

    async def decode(self, picture: bytes, preprocessing: Preprocessing, name: str, user: UUID) -> Tensor:
        """The picture as (3, S, S), or PictureUnreadable, which calls it by this name."""
        (turn,) = self._turns.join(user, 1)
        try:
            await turn.granted
            decoding = asyncio.get_running_loop().run_in_executor(
                self._threads, decode_picture, picture, preprocessing, name
            )
        except BaseException:
            self._turns.leave(turn)
            raise
        # Whoever goes away leaves a thread at work: until it has ended the turn is theirs.
        decoding.add_done_callback(lambda _: self._turns.leave(turn))
        return await asyncio.shield(decoding)

    def shutdown(self) -> None:
        """The threads have ended, and nothing that waited for one is begun."""
        self._threads.shutdown(cancel_futures=True)


def decode_picture(picture: bytes, preprocessing: Preprocessing, name: str) -> Tensor:
    """The picture as (3, S, S). PictureUnreadable, whose message contains the name, if it cannot be decoded."""
    try:
        return preprocessing(decode(picture))
    except NotReadable as error:
        raise InvalidPicture(str(error).replace("the picture", name, 1)) from error
