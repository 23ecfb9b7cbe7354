"""Sortable ids: UUIDs of version 7 (RFC 9562), which sort by the time they were made."""

import re
import secrets
import threading
import time
from uuid import UUID

_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_lock = threading.Lock()
_last_tick = 0


def new_id() -> UUID:
    """Return an id that sorts after every earlier id of this process, and by time among those of others."""
    global _last_tick
    with _lock:
        # 48 bits of milliseconds and 12 bits of their fraction, incremented where the clock stands still or goes back.
        milliseconds, rest = divmod(time.time_ns(), 1_000_000)
        tick = max((milliseconds << 12) | (rest << 12) // 1_000_000, _last_tick + 1)
        _last_tick = tick
    value = (tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | secrets.randbits(62)
    return UUID(int=value)


def id_timestamp(value: UUID) -> float | None:
    """Return the Unix time at which `new_id` made the id; None for a UUID of another version."""
    return (value.int >> 80) / 1000 if value.version == 7 else None


def parse_id(text: str) -> UUID | None:
    """Return the id in its usual form with hyphens; None for any other text, which may then be a name."""
    return UUID(text) if _TEXT.fullmatch(text) else None
