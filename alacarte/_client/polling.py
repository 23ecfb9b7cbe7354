"""Polling until a source is trained or an erasure is complete."""

import time
from collections.abc import Callable
from typing import TypeVar

from alacarte._client.errors import WaitTimeout
from alacarte.api.erasures import ErasureResponse
from alacarte.api.sources import SourceDetailResponse

MIN_INTERVAL_S = 0.05
MAX_INTERVAL_S = 1.0

T = TypeVar("T")


def poll(fetch: Callable[[], T], pending_reason: Callable[[T], str | None], timeout_s: float | None) -> T:
    """Fetch at growing intervals until nothing is pending; WaitTimeout has the reason if that takes too long."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    interval_s = MIN_INTERVAL_S
    while True:
        state = fetch()
        reason = pending_reason(state)
        if reason is None:
            return state
        if deadline is not None and time.monotonic() + interval_s > deadline:
            raise WaitTimeout(f"{reason}, after {timeout_s:g} s")
        time.sleep(interval_s)
        interval_s = min(2 * interval_s, MAX_INTERVAL_S)


def poll_training(
    fetch: Callable[[], SourceDetailResponse],
    timeout_s: float | None,
    on_progress: Callable[[SourceDetailResponse], None] | None,
) -> SourceDetailResponse:
    """Poll until all shards of the source are served, and report every state."""

    def fetch_and_report() -> SourceDetailResponse:
        source = fetch()
        if on_progress is not None:
            on_progress(source)
        return source

    return poll(fetch_and_report, untrained_reason, timeout_s)


def untrained_reason(source: SourceDetailResponse) -> str | None:
    """Say why the source is not trained; raise WaitTimeout if waiting cannot help."""
    waiting = [shard for shard in source.shards if not shard.is_served]
    if not waiting:
        return None
    if all(shard.state == "paused" for shard in waiting):
        raise WaitTimeout(f"the training of {source.name} was paused: resume it")
    reason = f"{len(waiting)} of {len(source.shards)} shards of {source.name} are not trained"
    errors = [shard.error for shard in waiting if shard.error]
    return f"{reason} ({errors[0]})" if errors else reason


def incomplete_reason(erasure: ErasureResponse) -> str | None:
    """Say which steps of the erasure are not done."""
    if erasure.receipt is not None:
        return None
    return f"the erasure waits for {erasure.open_steps or 'its receipt'}"
