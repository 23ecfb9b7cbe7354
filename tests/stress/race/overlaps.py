"""Count how many calls overlapped a deletion or revocation of a source that they might have used."""

from bisect import bisect_left
from dataclasses import dataclass

from tests.stress.race.history import History
from tests.stress.race.registry_state import registers_of


@dataclass(frozen=True)
class Overlaps:
    """The overlap counts of a history."""

    calls: int  # that were answered, or refused because the named source was gone
    raced: int  # of them, those that overlapped a removal from their user's set
    pairs: int  # of a call and a removal that overlap
    removals: int  # deletions and revocations, for each user whose set they changed


def count_overlaps(history: History) -> Overlaps:
    """Count the overlaps of the answered calls."""
    removals = {
        user: sorted(
            (change.sent, change.answered, register.source)
            for register in registers
            for change in register.changes
            if not change.becomes
        )
        for user, registers in registers_of(history.writes, {call.user for call in history.calls}).items()
    }
    longest = max((end - start for mine in removals.values() for start, end, _ in mine), default=0.0)
    answered = [call for call in history.calls if call.is_answered]
    overlaps = []
    for call in answered:
        mine = removals[call.user]
        first = bisect_left(mine, (call.sent - longest,))
        last = bisect_left(mine, (call.received,))
        overlaps.append(sum(end >= call.sent and call.named_source in (None, one) for _, end, one in mine[first:last]))
    raced = sum(count > 0 for count in overlaps)
    return Overlaps(len(answered), raced, sum(overlaps), sum(map(len, removals.values())))
