"""How many threads torch computes with, which each thread chooses for itself, and by that for all threads to come."""

import threading

import torch

_choosing = threading.Lock()


def compute_with(count: int) -> None:
    """The calling thread computes with that many from now on, whatever others choose."""
    with _choosing:
        torch.set_num_threads(count)
        torch.get_num_threads()  # a thread settles when it first asks, and would settle for what another chose last


def compute_alone() -> None:
    """The calling thread brings no others along: beside the device's there would be more of them than cores."""
    compute_with(1)
