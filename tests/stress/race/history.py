"""The history of a race, and the recorder of it: every write and every prediction with its times by one clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tests.e2e.call_log import CallLog

Operation = Literal["publish", "grant", "revoke", "delete"]

# All times are of time.monotonic(), which is one clock for all processes of a machine.


@dataclass(frozen=True)
class Write:
    """A completed write of an admin to a source. Writes to one source never overlap.

    Retries count as one write, from the first request to the last response.
    """

    operation: Operation
    source: str
    sent: float
    answered: float
    user: str = ""  # for grant and revoke
    prompt: int = 0  # for publish: the number of the prompt


@dataclass(frozen=True)
class PredictCall:
    """A prediction request and its answer."""

    client: str
    user: str
    picture: int
    sent: float
    received: float
    status: int
    named_source: str | None = None  # the one source that the request named, if any
    computed: float | None = None  # when the scores were computed, before the recheck
    sources: frozenset[str] = frozenset()  # that the answer names
    scores: Mapping[str, float] | None = None  # by label

    @property
    def is_answered(self) -> bool:
        """Whether the answer shows what was usable: labels, or 404 for the named source."""
        return self.status == 200 or (self.status == 404 and self.named_source is not None)


@dataclass(frozen=True)
class History:
    """All writes and calls of a race."""

    writes: tuple[Write, ...]
    calls: tuple[PredictCall, ...]


class Recorder(CallLog[PredictCall]):
    """Collects the history of a race."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: set[str] = set()  # sources that exist as far as is known
        self._writes: list[Write] = []

    def add_write(self, write: Write) -> None:
        self._writes.append(write)
        if write.operation == "publish":
            self.alive.add(write.source)
        elif write.operation == "delete":
            self.alive.discard(write.source)

    def history(self) -> History:
        return History(tuple(self._writes), tuple(self.calls))
