"""The rate limit: a token bucket for each access token, in this replica's memory."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from service.errors import TooManyRequests

MAX_BUCKETS = 100_000


class RateLimiter:
    """Buckets by the public ids of access tokens. Full buckets are dropped, so only recent callers take memory."""

    def __init__(
        self,
        rate_per_s: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        max_buckets: int = MAX_BUCKETS,
    ) -> None:
        self._spacing_s = 1 / rate_per_s if rate_per_s else 0.0
        self._burst = burst
        self._clock = clock
        self._max_buckets = max_buckets
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when each will be full; least recently used first

    def __len__(self) -> int:
        return len(self._full_at)

    def acquire(self, public_id: str) -> None:
        """Take one request from the bucket; TooManyRequests, with the time to wait, if it is empty."""
        if not self._spacing_s:
            return
        now = self._clock()
        full_at = max(self._full_at.get(public_id, now), now)
        wait_s = full_at - now - (self._burst - 1) * self._spacing_s  # until it contains one again
        if wait_s > 1e-9:  # less is a rounding error
            raise TooManyRequests(max(1, math.ceil(wait_s)))
        self._full_at[public_id] = full_at + self._spacing_s
        self._full_at.move_to_end(public_id)
        self._evict(now)

    def _evict(self, now: float) -> None:
        """Drop the least recently used buckets that are full, or beyond the limit."""
        while self._full_at:
            public_id, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= self._max_buckets:
                return
            del self._full_at[public_id]
