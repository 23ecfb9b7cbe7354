"""Sortable ids: UUIDs of version 7 (RFC 9562), whose order is the order of their making."""

import secrets
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last_tick = 0


def new_id() -> UUID:
    """An id that sorts after every id this process made before, and by time among those of others."""
    global _last_tick
    with _lock:
        # 48 bits of milliseconds and 12 bits of their fraction, stepped where the clock stands still or goes back.
        milliseconds, rest = divmod(time.time_ns(), 1_000_000)
        tick = max((milliseconds << 12) | (rest << 12) // 1_000_000, _last_tick + 1)
        _last_tick = tick
    value = (tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | secrets.randbits(62)
    return UUID(int=value)


def id_timestamp(made: UUID) -> float | None:
    """The Unix time at which `new_id` made the id, by the clock of then; None if it is no such id."""
    return (made.int >> 80) / 1000 if made.version == 7 else None
