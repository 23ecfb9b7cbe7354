"""What the people of a crash run did and were told, and when; whoever waits for others to get on waits here."""

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from tests.stress.crash.uploads import UploadArchive

What = Literal["predict", "upload", "extend", "grant", "forget"]
PATIENCE_SECONDS = 240.0
DONE = frozenset({200, 201, 202})
AWAY = frozenset({0, 502, 503, 504})

# Moments are of time.monotonic(), which is one clock for all processes of a machine.


@dataclass(frozen=True)
class Call:
    """One request, and whatever came back."""

    what: What
    path: str
    place: str  # the proxy, or a replica by its name
    sent: float
    received: float
    status: int  # 0: nothing came back
    media: str = ""
    body: bytes = b""
    fault: str = ""  # of the connection
    picture: int = 0  # of a prediction

    @property
    def is_done(self) -> bool:
        """Whether what was asked for is done, and the answer says so."""
        return self.status in DONE

    @property
    def is_failed_cleanly(self) -> bool:
        """Whether it may be tried again: nobody was there, or somebody says that a part is not."""
        return self.status in AWAY


@dataclass(frozen=True)
class Upload:
    """A archive that was sent: taken in for sure, or perhaps, since nobody was told."""

    archive: UploadArchive
    is_sure: bool
    source: str | None  # its id; None: whoever has that name, if anybody


@dataclass(frozen=True)
class Forget:
    """A source or a picture that was forgotten; tried until it was done, from the first sending to the last answer."""

    source: str
    sample: str | None  # its digest
    sent: float
    answered: float
    erasure: str


class Journal:
    """A history in the making, and the end of the load: when there was enough, or somebody fails."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.uploads: list[Upload] = []
        self.forgets: list[Forget] = []
        self._more = threading.Condition()
        self._is_over = False
        self._failure: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether to stop."""
        return self._is_over

    def add(self, entry: Call | Upload | Forget) -> None:
        """Something was done or heard."""
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
        """How often each thing was done well."""
        with self._more:
            done: Counter[str] = Counter(str(call.what) for call in self.calls if call.is_done)
            done["sources forgotten"] = sum(one.sample is None for one in self.forgets)
            done["samples forgotten"] = sum(one.sample is not None for one in self.forgets)
            return done

    def await_calls(self, more: int) -> None:
        """So many more answers or failures have come, or the load is over."""
        with self._more:
            wanted = len(self.calls) + more
            came = self._more.wait_for(lambda: self._is_over or len(self.calls) >= wanted, PATIENCE_SECONDS)
        assert came, "nobody hears anything any more"

    def await_end(self, seconds: float) -> None:
        """The load is over, or so much time: for those who were told to come back later."""
        with self._more:
            self._more.wait_for(lambda: self._is_over, seconds)

    def finish(self, failure: BaseException | None = None) -> None:
        """Everybody stops; the first failure is what is wrong."""
        with self._more:
            self._is_over = True
            self._failure = self._failure or failure
            self._more.notify_all()

    def require_sound(self) -> None:
        """Raises what a thread failed with."""
        if self._failure is not None:
            raise self._failure
