"""Threads of the CPU: training wants one a job, so that bits do not depend on how many cores there are."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
