"""What the device is given and what it says: one picture with its prompts in, their logits out."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from service.engine.errors import DeadlinePassed
from service.engine.prompt_cache import CachedPrompt, PromptCache
from service.engine.prompt_loader import LoadedPrompt


@dataclass(frozen=True)
class PictureLogits:
    """What one pass found for one picture."""

    logits: Mapping[str, Tensor]  # (C) of each prompt, by its digest
    residents: Mapping[str, CachedPrompt]
    embedding: Tensor  # (D)


@dataclass(frozen=True, eq=False)
class Job:
    """One picture and the prompts that it is asked with, no more than one pass can take."""

    residence: PromptCache
    image: Tensor  # (3, S, S)
    digests: Sequence[str]  # none twice
    fetched: Mapping[str, LoadedPrompt]
    since: float  # when the picture was admitted, by the monotonic clock
    deadline: float
    said: asyncio.Future[PictureLogits]


def is_wanted(work: Job) -> bool:
    """Whether somebody still waits; whoever has waited too long is told so."""
    if work.said.done():
        return False
    if work.deadline <= time.monotonic():
        tell([(work, DeadlinePassed())])
        return False
    return True


def tell(told: Sequence[tuple[Job, PictureLogits | Exception]]) -> None:
    """Wake the event loop once for all of them."""
    if told:
        told[0][0].said.get_loop().call_soon_threadsafe(_settle, told)


def _settle(told: Sequence[tuple[Job, PictureLogits | Exception]]) -> None:
    for work, found in told:
        if work.said.done():
            continue
        if isinstance(found, Exception):
            work.said.set_exception(found)
        else:
            work.said.set_result(found)
