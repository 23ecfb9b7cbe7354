"""The sources that exist in a crash run, shared by the owner's and the admin's threads."""

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
        """Add a new source."""
        with self._lock:
            self._live[source] = set(samples)
            if is_temporary:
                self._temporary.add(source)

    def add(self, source: str, samples: Collection[str]) -> None:
        """Add samples to a source."""
        with self._lock:
            self._live[source] |= set(samples)

    def grant(self, source: str) -> None:
        """Mark the source as granted to the predicting user."""
        with self._lock:
            self._granted.add(source)

    def take(self, source: str, sample: str | None) -> None:
        """Remove the source or sample before it is forgotten."""
        with self._lock:
            if sample is not None:
                self._live[source].discard(sample)
            else:
                del self._live[source]
                self._temporary.discard(source)

    @property
    def live(self) -> dict[str, frozenset[str]]:
        """Return the samples of each source that may be forgotten."""
        with self._lock:
            return {source: frozenset(samples) for source, samples in sorted(self._live.items())}

    @property
    def temporary(self) -> list[str]:
        """Return the sources that will be forgotten."""
        with self._lock:
            return sorted(self._temporary)

    @property
    def permanent(self) -> list[str]:
        """Return the sources that will not be forgotten."""
        with self._lock:
            return sorted(self._live.keys() - self._temporary)

    @property
    def granted(self) -> list[str]:
        """Return the sources that the predicting user may use."""
        with self._lock:
            return sorted(self._live.keys() & self._granted)
