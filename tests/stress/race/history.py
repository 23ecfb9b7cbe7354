"""What clients and admins did and were told, each with its times by one clock: the whole evidence of a race."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operation = Literal["publish", "grant", "revoke", "delete"]

# Moments are of time.monotonic(), which is one clock for all processes of a machine.


@dataclass(frozen=True)
class Write:
    """Something that an admin did to a source; those to one source follow each other, and none is in doubt.

    One that is tried until it is done is one write, from the first sending to the last answer.
    """

    operation: Operation
    source: str
    sent: float
    answered: float
    user: str = ""  # of a grant or a revocation
    prompt: int = 0  # of a publishing: which prompt it was


@dataclass(frozen=True)
class Ask:
    """A prediction that was asked for, and the answer."""

    client: str
    user: str
    picture: int
    sent: float
    received: float
    status: int
    asked: str | None = None  # the one source that was named, if any
    computed: float | None = None  # when the scores were there, and only the look at the rights was left to do
    sources: frozenset[str] = frozenset()  # those that the answer says it rests on
    scores: Mapping[str, float] | None = None  # by label

    @property
    def is_answered(self) -> bool:
        """Whether it says what may be used: by labels, or that what was named may not."""
        return self.status == 200 or (self.status == 404 and self.asked is not None)


@dataclass(frozen=True)
class History:
    """All that was done and asked."""

    writes: tuple[Write, ...]
    asks: tuple[Ask, ...]
