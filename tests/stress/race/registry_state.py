"""Whether one user may use one source over time; uncertain only while a write is in progress."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from tests.stress.race.history import Write


@dataclass(frozen=True)
class Change:
    """A write that changed whether the source is usable, at one moment between its request and its response."""

    becomes: bool
    sent: float
    answered: float
    write: Write


@dataclass(frozen=True)
class Register:
    """Whether a source is usable by a user: false at first, inverted by each change."""

    user: str
    source: str
    changes: tuple[Change, ...]

    @property
    def begins(self) -> float:
        """Return the time before which the source is certainly not usable."""
        return self.changes[0].sent if self.changes else inf

    @property
    def ends(self) -> float:
        """Return the time after which the source is certainly never usable again."""
        if not self.changes:
            return -inf
        return inf if self.changes[-1].becomes else self.changes[-1].answered

    def spans(self, value: bool) -> list[tuple[float, float]]:
        """Return the spans in which it may have had this value: from request to response of the surrounding changes."""
        starts = [(-inf, False), *((change.sent, change.becomes) for change in self.changes)]
        ends = [*(change.answered for change in self.changes), inf]
        return [(start, end) for (start, has), end in zip(starts, ends, strict=True) if has is value]

    def certain_spans(self, value: bool) -> list[tuple[float, float]]:
        """Return the spans in which it certainly had this value: between the surrounding changes."""
        starts = [(-inf, False), *((change.answered, change.becomes) for change in self.changes)]
        ends = [*(change.sent for change in self.changes), inf]
        return [(start, end) for (start, has), end in zip(starts, ends, strict=True) if has is value]


def registers_of(writes: Iterable[Write], users: Iterable[str]) -> dict[str, list[Register]]:
    """Return the registers of each user, sorted by begin."""
    by_source: dict[str, list[Write]] = defaultdict(list)
    for write in sorted(writes, key=lambda write: write.sent):
        by_source[write.source].append(write)
    for done in by_source.values():
        for one, following in pairwise(done):
            assert one.answered <= following.sent, "two writes to one source overlap: their order is unknown"
    return {
        user: sorted((_register(user, source, done) for source, done in by_source.items()), key=lambda one: one.begins)
        for user in users
    }


def _register(user: str, source: str, writes: Sequence[Write]) -> Register:
    is_published = is_granted = is_deleted = was_usable = False
    changes = []
    for write in writes:
        match write.operation:
            case "publish":
                is_published = True
            case "grant" | "revoke" if write.user == user:
                is_granted = write.operation == "grant"
            case "delete":
                is_deleted = True
        is_usable = is_published and is_granted and not is_deleted
        if is_usable != was_usable:
            changes.append(Change(is_usable, write.sent, write.answered, write))
        was_usable = is_usable
    return Register(user, source, tuple(changes))
