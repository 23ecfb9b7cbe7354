"""What came of a race, in numbers."""

from collections import Counter
from dataclasses import dataclass

from tests.stress.race.checker import Violation, find_violations
from tests.stress.race.fixtures import true_scores
from tests.stress.race.history import History
from tests.stress.race.overlaps import Overlaps, count_overlaps


@dataclass(frozen=True)
class RaceReport:
    """The counts of a race, and everything that was wrong."""

    overlaps: Overlaps
    statuses: Counter[int]
    deeds: Counter[str]
    seconds: float
    violations: tuple[Violation, ...]

    @property
    def kinds(self) -> Counter[str]:
        """How many violations there are of each kind."""
        return Counter(violation.kind for violation in self.violations)

    def __str__(self) -> str:
        counts = self.overlaps
        lines = [
            f"{counts.raced} of {counts.asks} answered predictions overlapped one of {counts.takings} deletions and "
            f"revocations of something in their user's set, {counts.pairs} times in all, within {self.seconds:.0f} s",
            f"answers by status: {dict(self.statuses)}; writes: {dict(self.deeds)}",
            f"violations: {len(self.violations)} {dict(self.kinds)}",
            *(f"  {one.kind}: {one.ask.client} {one.detail}" for one in self.violations[:5]),
        ]
        return "\n".join(lines)


def check_history(history: History) -> RaceReport:
    """The report over a race of the setup's prompts."""
    return RaceReport(
        overlaps=count_overlaps(history),
        statuses=Counter(ask.status for ask in history.asks),
        deeds=Counter(write.operation for write in history.writes),
        seconds=max(ask.received for ask in history.asks) - min(ask.sent for ask in history.asks),
        violations=tuple(find_violations(history, true_scores)),
    )
