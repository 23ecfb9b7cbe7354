"""An issuer's keys as this replica has them: fetched when needed, seldom enough, and kept while nobody answers."""

import logging
import time
from collections.abc import Callable

import anyio
from jwt import PyJWK

from service.auth.jwks import InvalidKeySet, KeySet
from service.concurrency import ThreadPool
from service.errors import KeysUnavailable
from service.observability.logging import log

STALE_SECONDS = 600.0  # after which a key that the issuer has withdrawn counts no longer
FIRST_SECONDS = 1.0  # between attempts while there is no key at all


class JwksCache:
    """Keys by their ids. A key that is not known is asked for, though not more often than every so many seconds."""

    def __init__(
        self,
        fetch: Callable[[], KeySet],
        refresh_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._refresh_s = refresh_s
        self._clock = clock
        self._pool = ThreadPool(1)
        self._turn = anyio.Lock()
        self._keys: KeySet | None = None
        self._fetched_at = 0.0
        self._tried_at: float | None = None

    async def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """The key, if the issuer has it; KeysUnavailable if nobody knows which keys the issuer has."""
        key = self._known(kid, algorithm)
        if key is None or self._is_stale():
            await self._refresh(kid, algorithm)
            key = self._known(kid, algorithm)
        if self._keys is None:
            raise KeysUnavailable
        return key

    def _known(self, kid: str | None, algorithm: str) -> PyJWK | None:
        return None if self._keys is None else self._keys.find(kid, algorithm)

    def _is_stale(self) -> bool:
        return self._clock() > self._fetched_at + STALE_SECONDS

    def _may_try(self) -> bool:
        seconds = self._refresh_s if self._keys is not None else min(FIRST_SECONDS, self._refresh_s)
        return self._tried_at is None or self._clock() >= self._tried_at + seconds

    def _take(self) -> None:
        # In the thread, so that what was fetched is kept though whoever asked for it has left.
        self._keys = self._fetch()
        self._fetched_at = self._clock()

    async def _refresh(self, kid: str | None, algorithm: str) -> None:
        if not self._may_try():
            return
        if self._known(kid, algorithm) is not None and self._turn.locked():
            return  # somebody is at it, and the old key serves meanwhile
        async with self._turn:
            if not self._may_try():  # whoever was before us has asked
                return
            try:
                await self._pool.run(self._take)
            except InvalidKeySet as error:  # what there is goes on counting
                log(logging.WARNING, "issuer.keys-unavailable", reason=str(error))
            finally:
                self._tried_at = self._clock()
