"""CPU threads of torch: how many cores there are, and code that computes with one thread.

With one thread a job, results do not depend on the number of cores.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def available_cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_one_thread() -> None:
    """Let the calling thread compute with one thread; hold a `TorchThreadGuard` meanwhile."""
    torch.set_num_threads(1)


class TorchThreadGuard:
    """Restores the number of threads that new threads inherit.

    `torch.set_num_threads` in one thread changes it for the whole process. The last holder restores the original value.
    """

    _lock = threading.Lock()
    _holders = 0
    _original = 1

    @classmethod
    def acquire(cls) -> None:
        with cls._lock:
            if not cls._holders:
                cls._original = torch.get_num_threads()
            cls._holders += 1

    @classmethod
    def release(cls) -> None:
        with cls._lock:
            cls._holders -= 1
            if not cls._holders:
                torch.set_num_threads(cls._original)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block, and restore the previous number afterwards."""
    previous = torch.get_num_threads()
    TorchThreadGuard.acquire()
    use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(previous)
        TorchThreadGuard.release()
