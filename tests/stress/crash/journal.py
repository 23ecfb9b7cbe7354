"""The journal of a crash run: every call, upload and erasure with its times."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from tests.e2e.call_log import CallLog
from tests.stress.crash.uploads import UploadArchive

What = Literal["predict", "upload", "extend", "grant", "forget"]
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


class Journal(CallLog[Call]):
    """The calls of a crash run, and what they uploaded and forgot."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[Upload] = []
        self.forgets: list[Forget] = []

    def counts(self) -> Counter[str]:
        done: Counter[str] = Counter(str(call.what) for call in self.calls if call.is_done)
        done["sources forgotten"] = sum(one.sample is None for one in self.forgets)
        done["samples forgotten"] = sum(one.sample is not None for one in self.forgets)
        return done
