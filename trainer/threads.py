"""Threads of the CPU: training wants one a job, so that bits do not depend on how many cores there are."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cores() -> int:
    """How many cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_one_thread() -> None:
    """Let the calling thread do its own arithmetic alone."""
    torch.set_num_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, the calling thread does its own arithmetic alone; after it, as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
