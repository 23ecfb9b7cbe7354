"""What an examination can find: rows without objects, objects without rows, leftovers, a broken log."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

FindingKind = Literal[
    "orphan object",
    "unknown object",
    "lost sample",
    "damaged sample",
    "lost prompt",
    "damaged prompt",
    "stale prompt",
    "empty shard",
    "expired write claim",
    "abandoned room",
    "broken log",
    "acknowledged break",
]
ProgressCallback = Callable[[int], None]  # is told, now and then, how many objects were looked at


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be."""

    kind: FindingKind
    subject: str  # a key, an id, or the number of a line
    detail: str
    is_mendable: bool

    @property
    def is_fault(self) -> bool:
        """Whether somebody should do something; a break of the log that was acknowledged stays to be seen."""
        return self.kind != "acknowledged break"
