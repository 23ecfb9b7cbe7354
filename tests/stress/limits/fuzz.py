"""Run hypothesis in rounds with separate seeds, and stop an input that hangs."""

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

ROUND = 1000  # inputs; hypothesis keeps every input of a round in memory
HANG_SECONDS = 120

T = TypeVar("T")


class InputHangs(BaseException):
    """An input took minutes. A BaseException, so that no code mistakes it for an error of the input."""


def fuzz(strategy: SearchStrategy[T], count: int, check: Callable[[T], object]) -> None:
    """Check `count` inputs: always the same ones in a short run, other ones each time in a long run.

    The seed of a failing round is printed.
    """
    seeds = random.SystemRandom() if count > ROUND else random.Random(0)
    for first in range(0, count, ROUND):
        own = seeds.getrandbits(32)

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
            with timeout_guard():
                check(value)

        try:
            with silence_stderr():
                check_all()
        except BaseException:
            sys.stdout.write(f"\nfailed with seed {own}\n")
            raise


@contextmanager
def timeout_guard() -> Iterator[None]:
    """Raise InputHangs if the block does not end in time; ignore warnings of libraries, as in production."""

    def raise_timeout(_: int, __: FrameType | None) -> None:
        raise InputHangs

    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(HANG_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Discard what C libraries write to stderr: libtiff writes lines for every damaged file."""
    stderr = os.dup(2)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(devnull)
