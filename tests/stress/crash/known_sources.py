"""The sources that people of a crash run know of, for owner and admin at once."""

import threading
from collections.abc import Collection


class KnownSources:
    """The sources that certainly exist, some of them temporary, each with the samples that may be forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, set[str]] = {}
        self._temporary: set[str] = set()
        self._granted: set[str] = set()

    def put(self, source: str, samples: Collection[str], *, is_temporary: bool) -> None:
        """A source has come."""
        with self._lock:
            self._live[source] = set(samples)
            if is_temporary:
                self._temporary.add(source)

    def add(self, source: str, samples: Collection[str]) -> None:
        """More pictures have come to a source."""
        with self._lock:
            self._live[source] |= set(samples)

    def grant(self, source: str) -> None:
        """The one who predicts may use it."""
        with self._lock:
            self._granted.add(source)

    def take(self, source: str, sample: str | None) -> None:
        """It is about to be forgotten, and nobody touches it any more."""
        with self._lock:
            if sample is not None:
                self._live[source].discard(sample)
            else:
                del self._live[source]
                self._temporary.discard(source)

    @property
    def live(self) -> dict[str, frozenset[str]]:
        """Of each source the pictures that may go."""
        with self._lock:
            return {source: frozenset(samples) for source, samples in sorted(self._live.items())}

    @property
    def temporary(self) -> list[str]:
        """Sources that are there to be forgotten."""
        with self._lock:
            return sorted(self._temporary)

    @property
    def permanent(self) -> list[str]:
        """Sources that are not."""
        with self._lock:
            return sorted(self._live.keys() - self._temporary)

    @property
    def granted(self) -> list[str]:
        """Sources that the one who predicts may use."""
        with self._lock:
            return sorted(self._live.keys() & self._granted)
