"""The journal of a crash run: every call, upload and erasure with its times; threads wait here for each other."""

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from tests.stress.crash.uploads import UploadArchive

What = Literal["predict", "upload", "extend", "grant", "forget"]
WAIT_SECONDS = 240.0
DONE = frozenset({200, 201, 202})
UNAVAILABLE = frozenset({0, 502, 503, 504})

# All times are of time.monotonic(), which is one clock for all processes of a machine.


@dataclass(frozen=True)
class Call:
    """One request and its response, if any."""

    what: What
    path: str
    target: str  # the proxy, or a replica by its name
    sent: float
    received: float
    status: int  # 0: nothing came back
    media: str = ""
    body: bytes = b""
    error: str = ""  # of the connection
    picture: int = 0  # of a prediction

    @property
    def is_done(self) -> bool:
        """Whether the response reports success."""
        return self.status in DONE

    @property
    def is_failed_cleanly(self) -> bool:
        """Whether the call may be retried: nothing answered, or a part is reported as unavailable."""
        return self.status in UNAVAILABLE


@dataclass(frozen=True)
class Upload:
    """An archive that was sent; `is_sure` if the response said that it was accepted."""

    archive: UploadArchive
    is_sure: bool
    source: str | None  # its id; None: the source of that name, if it exists


@dataclass(frozen=True)
class Forget:
    """A source or sample that was forgotten. Retries count as one, from the first request to the last response."""

    source: str
    sample: str | None  # its digest
    sent: float
    answered: float
    erasure: str


class Journal:
    """Collects what happened, and ends the load when there was enough or a thread fails."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.uploads: list[Upload] = []
        self.forgets: list[Forget] = []
        self._more = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether the threads must stop."""
        return self._is_over

    def add(self, entry: Call | Upload | Forget) -> None:
        """Add an entry."""
        with self._more:
            match entry:
                case Call():
                    self.calls.append(entry)
                case Upload():
                    self.uploads.append(entry)
                case Forget():
                    self.forgets.append(entry)
            self._more.notify_all()

    def counts(self) -> Counter[str]:
        """Count the successful calls of each kind."""
        with self._more:
            done: Counter[str] = Counter(str(call.what) for call in self.calls if call.is_done)
            done["sources forgotten"] = sum(one.sample is None for one in self.forgets)
            done["samples forgotten"] = sum(one.sample is not None for one in self.forgets)
            return done

    def await_calls(self, more: int) -> None:
        """Wait for `more` further calls, or the end of the load."""
        with self._more:
            target_count = len(self.calls) + more
            came = self._more.wait_for(lambda: self._is_over or len(self.calls) >= target_count, WAIT_SECONDS)
        assert came, f"no {more} calls ended within {WAIT_SECONDS} s"

    def await_end(self, seconds: float) -> None:
        """Wait for the end of the load, at most so many seconds."""
        with self._more:
            self._more.wait_for(lambda: self._is_over, seconds)

    def finish(self, failure: BaseException | None = None) -> None:
        """End the load; the first failure is kept."""
        with self._more:
            self._is_over = True
            self._failure = self._failure or failure
            self._more.notify_all()

    def assert_sound(self) -> None:
        """Raise the first failure of a thread, if there was one."""
        if self._failure is not None:
            raise self._failure
