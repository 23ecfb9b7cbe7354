"""Threads of the CPU: training wants one a job, so that bits do not depend on how many cores there are."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cores() -> int:
    """How many cores this process is allowed on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_one_thread() -> None:
    """Let the calling thread do its own arithmetic alone; see `TorchThreadGuard` for what else this does."""
    torch.set_num_threads(1)


class TorchThreadGuard:
    """The number of threads that new threads inherit, which torch changes for everyone whenever one changes its own.

    Whoever needs threads that work alone takes it, and gives it back; the last to do so restores what was there.
    """

    _lock = threading.Lock()
    _takers = 0
    _before = 1

    @classmethod
    def take(cls) -> None:
        with cls._lock:
            if not cls._takers:
                cls._before = torch.get_num_threads()
            cls._takers += 1

    @classmethod
    def give_back(cls) -> None:
        with cls._lock:
            cls._takers -= 1
            if not cls._takers:
                torch.set_num_threads(cls._before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, the calling thread does its own arithmetic alone; after it, as before."""
    own = torch.get_num_threads()
    TorchThreadGuard.take()
    use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(own)
        TorchThreadGuard.give_back()
