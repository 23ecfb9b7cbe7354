"""Waiting for a condition that somebody else brings about."""

import threading
from collections.abc import Callable

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02


def wait_for(condition: Callable[[], bool]) -> None:
    """Returns as soon as the condition holds."""
    for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
        if condition():
            return
        threading.Event().wait(LOOK_SECONDS)
    raise AssertionError("waited in vain")
