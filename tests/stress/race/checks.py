"""The report of a race: counts and violations."""

from collections import Counter
from dataclasses import dataclass

from tests.stress.race.checker import Violation, find_violations
from tests.stress.race.fixtures import true_scores
from tests.stress.race.history import History
from tests.stress.race.overlaps import Overlaps, count_overlaps


@dataclass(frozen=True)
class RaceReport:
    """The counts and the violations of a race."""

    overlaps: Overlaps
    statuses: Counter[int]
    operations: Counter[str]
    seconds: float
    violations: tuple[Violation, ...]

    @property
    def kinds(self) -> Counter[str]:
        """How many violations there are of each kind."""
        return Counter(violation.kind for violation in self.violations)

    def __str__(self) -> str:
        counts = self.overlaps
        lines = [
            f"{counts.raced} of {counts.calls} answered predictions overlapped one of {counts.removals} deletions and "
            f"revocations of something in their user's set, {counts.pairs} times in all, within {self.seconds:.0f} s",
            f"answers by status: {dict(self.statuses)}; writes: {dict(self.operations)}",
            f"violations: {len(self.violations)} {dict(self.kinds)}",
            *(f"  {one.kind}: {one.call.client} {one.detail}" for one in self.violations[:5]),
        ]
        return "\n".join(lines)


def check_history(history: History) -> RaceReport:
    """Check a history against the true scores of the race's prompts."""
    return RaceReport(
        overlaps=count_overlaps(history),
        statuses=Counter(call.status for call in history.calls),
        operations=Counter(write.operation for write in history.writes),
        seconds=max(call.received for call in history.calls) - min(call.sent for call in history.calls),
        violations=tuple(find_violations(history, true_scores)),
    )
