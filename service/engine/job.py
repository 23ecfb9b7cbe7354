"""A job of the device: one picture and its prompts in, their logits out."""

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
    """The result for one picture. Prompts are keyed by digest."""

    logits: Mapping[str, Tensor]  # (C) of each prompt
    prompts: Mapping[str, CachedPrompt]
    embedding: Tensor  # (D)


@dataclass(frozen=True, eq=False)
class Job:
    """One picture with prompts that fit into one pass."""

    cache: PromptCache
    image: Tensor  # (3, S, S)
    digests: Sequence[str]  # of the prompts, each once
    loaded: Mapping[str, LoadedPrompt]  # prompts that were not in the cache, by digest
    admitted_at: float  # time.monotonic()
    deadline: float  # time.monotonic()
    result: asyncio.Future[PictureLogits]


Outcome = tuple[Job, PictureLogits | Exception]


def is_pending(job: Job) -> bool:
    """Return whether the job must still be computed. A job past its deadline is resolved with DeadlinePassed."""
    if job.result.done():
        return False
    if job.deadline <= time.monotonic():
        resolve([(job, DeadlinePassed())])
        return False
    return True


def resolve(outcomes: Sequence[Outcome]) -> None:
    """Set the results of several jobs from any thread, and wake the event loop once."""
    if outcomes:
        outcomes[0][0].result.get_loop().call_soon_threadsafe(_set_results, outcomes)


def _set_results(outcomes: Sequence[Outcome]) -> None:
    for job, outcome in outcomes:
        if job.result.done():
            continue
        if isinstance(outcome, Exception):
            job.result.set_exception(outcome)
        else:
            job.result.set_result(outcome)
