"""The token cache: callers of predict requests whom SQL has authenticated within the last second.

It only saves the query before the body is read. Both reads of the rights authenticate the caller in SQL again, so a
token that was just revoked can still send a body for a second, but gets no answer.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from registry.access.authentication import Credential
from registry.access.caller import Caller

TTL_SECONDS = 1.0
MAX_ENTRIES = 10_000


class TokenCache:
    """Callers by the public ids of their credentials; used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, str, Caller]] = OrderedDict()  # the oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, credential: Credential) -> Caller | None:
        """Return the caller whom SQL confirmed for this credential within the last second."""
        self._evict()
        entry = self._entries.get(credential.public_id)
        if entry is None:
            return None
        _, stored_value, caller = entry
        return caller if credential.matches(stored_value) else None

    def put(self, credential: Credential, caller: Caller) -> None:
        """Cache the caller whom SQL has just confirmed."""
        self._entries[credential.public_id] = (self._clock() + TTL_SECONDS, credential.stored_value, caller)
        self._entries.move_to_end(credential.public_id)
        self._evict()

    def _evict(self) -> None:
        now = self._clock()
        while self._entries:
            public_id, (expires_at, _, _) = next(iter(self._entries.items()))
            if expires_at > now and len(self._entries) <= MAX_ENTRIES:
                return
            del self._entries[public_id]
