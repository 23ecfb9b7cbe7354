"""Rounds of hypothesis with seeds of their own, and an end to what never ends."""

import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

ROUND = 1000  # inputs: beyond, hypothesis remembers too many
HANG_SECONDS = 120

T = TypeVar("T")


class Hangs(BaseException):
    """One small input has kept the code busy for minutes; nothing in it may take this for an error of the input's."""


def fuzz(strategy: SearchStrategy[T], count: int, check: Callable[[T], object]) -> None:
    """Checks so many inputs; a short run always the same ones, a long run others each time, by seeds that it tells."""
    drawn = random.SystemRandom() if count > ROUND else random.Random(0)
    for first in range(0, count, ROUND):
        own = drawn.getrandbits(32)

        @seed(own)
        @settings(
            max_examples=min(ROUND, count - first),
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def check_all(value: T) -> None:
            with ending():
                check(value)

        try:
            with quiet():
                check_all()
        except BaseException:
            sys.stdout.write(f"\nfound by the seed {own}\n")
            raise


@contextmanager
def ending() -> Iterator[None]:
    """Raises Hangs if the block does not come to an end; libraries' complaints go unheard, as they do in production."""

    def raise_hangs(_: int, __: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, raise_hangs)
    signal.alarm(HANG_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def quiet() -> Iterator[None]:
    """What libraries in C say on stderr goes unheard: there are lines of it for every damaged TIFF."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
