"""Waiting for what takes its time: looking again and again, ever less often, and saying what is in the way."""

import time
from collections.abc import Callable
from typing import TypeVar

from alacarte._client.errors import WaitedInVain
from alacarte._client.models import Erasure, SourceState

SHORTEST_NAP_SECONDS = 0.05
LONGEST_NAP_SECONDS = 1.0

T = TypeVar("T")


class Forgetting:
    """An erasure that has begun: what it is about answers no more, and the rest follows."""

    def __init__(self, begun: Erasure, look: Callable[[], Erasure]) -> None:
        self.begun = begun
        self.id = begun.id
        self._look = look

    def __repr__(self) -> str:
        return f"Forgetting({self.id!r})"

    def wait(self, timeout: float | None = None) -> Erasure:
        """The erasure with its receipt, once every step is verified; WaitedInVain says what it waits for."""
        return wait_for(self._look, _undone, timeout)


def wait_for(look: Callable[[], T], obstacle: Callable[[T], str | None], timeout: float | None) -> T:
    """What `look` finds, once there is no obstacle to it."""
    end = None if timeout is None else time.monotonic() + timeout
    nap_seconds = SHORTEST_NAP_SECONDS
    while True:
        found = look()
        reason = obstacle(found)
        if reason is None:
            return found
        if end is not None and time.monotonic() + nap_seconds > end:
            raise WaitedInVain(f"{reason}, after {timeout:g} s")
        time.sleep(nap_seconds)
        nap_seconds = min(2 * nap_seconds, LONGEST_NAP_SECONDS)


def obstacle_to(state: SourceState) -> str | None:
    """What keeps a source from answering as a whole; WaitedInVain if nothing will change that by itself."""
    waiting = [shard for shard in state.shards if not shard.is_served]
    if not waiting:
        return None
    if all(shard.state == "paused" for shard in waiting):
        raise WaitedInVain(f"the training of {state.name} was stopped: resume it")
    missing = f"{len(waiting)} of {len(state.shards)} shards of {state.name} are not trained"
    faults = [shard.error for shard in waiting if shard.error]
    return f"{missing} ({faults[0]})" if faults else missing


def _undone(erasure: Erasure) -> str | None:
    if erasure.receipt is not None:
        return None
    steps = [f"{step.name} ({step.error or 'not done yet'})" for step in erasure.steps if step.done_at is None]
    return f"the erasure waits for {', '.join(steps) or 'its receipt'}"
