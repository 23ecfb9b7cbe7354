"""The JWKS cache: an issuer's keys, fetched on demand, rarely, and kept while the issuer is unreachable."""

import logging
import time
from collections.abc import Callable

import anyio
from jwt import PyJWK

from service.auth.jwks import InvalidKeySet, KeySet
from service.concurrency import ThreadPool
from service.errors import IssuerKeysUnavailable
from service.observability.logging import log

STALE_SECONDS = 600.0  # after which the keys are fetched again, to notice withdrawn ones
FIRST_RETRY_SECONDS = 1.0  # between attempts while no key was ever fetched


class JwksCache:
    """Keys by id. An unknown id triggers a fetch, at most once every `refresh_s` seconds."""

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
        self._fetch_lock = anyio.Lock()
        self._keys: KeySet | None = None
        self._fetched_at = 0.0
        self._attempted_at: float | None = None

    async def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the key, or None if the issuer has none such; IssuerKeysUnavailable if its keys were never fetched."""
        key = self._cached(kid, algorithm)
        if key is None or self._is_stale():
            await self._refresh(kid, algorithm)
            key = self._cached(kid, algorithm)
        if self._keys is None:
            raise IssuerKeysUnavailable
        return key

    def _cached(self, kid: str | None, algorithm: str) -> PyJWK | None:
        return None if self._keys is None else self._keys.find(kid, algorithm)

    def _is_stale(self) -> bool:
        return self._clock() > self._fetched_at + STALE_SECONDS

    def _may_fetch(self) -> bool:
        seconds = self._refresh_s if self._keys is not None else min(FIRST_RETRY_SECONDS, self._refresh_s)
        return self._attempted_at is None or self._clock() >= self._attempted_at + seconds

    def _fetch_and_store(self) -> None:
        # Stored in the thread, so that the keys are kept even if the request was cancelled meanwhile.
        self._keys = self._fetch()
        self._fetched_at = self._clock()

    async def _refresh(self, kid: str | None, algorithm: str) -> None:
        if not self._may_fetch():
            return
        if self._cached(kid, algorithm) is not None and self._fetch_lock.locked():
            return  # another request is fetching; the cached key is valid meanwhile
        async with self._fetch_lock:
            if not self._may_fetch():  # the request before has fetched
                return
            try:
                await self._pool.run(self._fetch_and_store)
            except InvalidKeySet as error:  # the cached keys stay valid
                log(logging.WARNING, "jwks.fetch-failed", reason=str(error))
            finally:
                self._attempted_at = self._clock()
