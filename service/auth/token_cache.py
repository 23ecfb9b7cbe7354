"""The gate before a question's body is read: it remembers for a moment whom SQL has just known.

Nobody gets an answer by it: what is asked about rights, at the beginning and at the end, proves its caller in SQL anew.
It spares those who ask often one look of three, and lets a token that was just revoked send bodies for a moment more,
in vain.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from registry.access.caller import Caller
from registry.access.credentials import Credential

TTL_SECONDS = 1.0
MAX_ENTRIES = 10_000


class TokenCache:
    """Callers by the names of their credentials; on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, str, Caller]] = OrderedDict()  # who was known longest ago first

    def __len__(self) -> int:
        return len(self._known)

    def get(self, credential: Credential) -> Caller | None:
        """Whose credential it was a moment ago."""
        self._forget()
        known = self._known.get(credential.public_id)
        if known is None:
            return None
        _, kept, caller = known
        return caller if credential.matches(kept) else None

    def put(self, credential: Credential, caller: Caller) -> None:
        """SQL has just said whose credential it is."""
        self._known[credential.public_id] = (self._clock() + TTL_SECONDS, credential.stored_value, caller)
        self._known.move_to_end(credential.public_id)
        self._forget()

    def _forget(self) -> None:
        now = self._clock()
        while self._known:
            name, (until, _, _) = next(iter(self._known.items()))
            if until > now and len(self._known) <= MAX_ENTRIES:
                return
            del self._known[name]
