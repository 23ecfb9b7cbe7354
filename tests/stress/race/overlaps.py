"""How much of a race a history was: how many asks met a deletion or revocation of what they might have used."""

from bisect import bisect_left
from dataclasses import dataclass

from tests.stress.race.history import History
from tests.stress.race.registry_state import registers_of


@dataclass(frozen=True)
class Overlaps:
    """Counts of a history."""

    asks: int  # that were answered, or refused because what they named was gone
    raced: int  # of them, those under way while something of their user's set was being taken from it
    pairs: int  # of an ask and a taking that overlap
    takings: int  # deletions and revocations, for each user whose set they changed


def count_overlaps(history: History) -> Overlaps:
    """The counts of the asks that were answered."""
    takings = {
        user: sorted(
            (change.sent, change.answered, register.source)
            for register in registers
            for change in register.changes
            if not change.becomes
        )
        for user, registers in registers_of(history.writes, {ask.user for ask in history.asks}).items()
    }
    longest = max((end - start for mine in takings.values() for start, end, _ in mine), default=0.0)
    answered = [ask for ask in history.asks if ask.is_answered]
    met = []
    for ask in answered:
        mine = takings[ask.user]
        first = bisect_left(mine, (ask.sent - longest,))
        last = bisect_left(mine, (ask.received,))
        met.append(sum(end >= ask.sent and ask.asked in (None, one) for _, end, one in mine[first:last]))
    return Overlaps(len(answered), sum(count > 0 for count in met), sum(met), sum(map(len, takings.values())))
