"""How fast one token may ask: a bucket for each, in this replica's memory, that fills again with time."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from service.errors import TooManyRequests

MAX_BUCKETS = 100_000


class RateLimiter:
    """Buckets by the names of tokens. A full bucket is no bucket, so only those who asked lately are remembered."""

    def __init__(
        self,
        rate_per_s: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        max_names: int = MAX_BUCKETS,
    ) -> None:
        self._spacing_s = 1 / rate_per_s if rate_per_s else 0.0
        self._burst = burst
        self._clock = clock
        self._max_names = max_names
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when each will be full; who asked last stands last

    def __len__(self) -> int:
        return len(self._full_at)

    def acquire(self, name: str) -> None:
        """Takes one request out of the bucket; TooManyRequests, and when to come again, if it is empty."""
        if not self._spacing_s:
            return
        now = self._clock()
        full_at = max(self._full_at.get(name, now), now)
        missing_s = full_at - now - (self._burst - 1) * self._spacing_s  # until there is one in it again
        if missing_s > 1e-9:  # less is the rounding of a clock
            raise TooManyRequests(max(1, math.ceil(missing_s)))
        self._full_at[name] = full_at + self._spacing_s
        self._full_at.move_to_end(name)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drops the full ones among those who asked longest ago, and beyond the limit those who asked longest ago."""
        while self._full_at:
            name, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= self._max_names:
                return
            del self._full_at[name]
