"""A finding of `alacarte doctor`."""

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
    "abandoned scratch folder",
    "log gap",
    "acknowledged log gap",
]
CountObject = Callable[[], None]  # called once per checked object


@dataclass(frozen=True)
class Finding:
    """One inconsistency between rows, objects, scratch space and the log."""

    kind: FindingKind
    subject: str  # a key, an id, or the number of a log entry
    detail: str
    is_repairable: bool

    @property
    def is_fault(self) -> bool:
        """Whether something should be done about it; an acknowledged log gap is only shown."""
        return self.kind != "acknowledged log gap"
