"""Check that a history is linearizable and that every answer uses exactly the sources that it names.

1. The sources of an answer were usable together at one moment between its request and its scores.
2. They were still usable at one moment after the scores, because rights are rechecked before the answer is sent.
3. The scores are those of the named sources.
4. All answers agree on the order of each change.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.stress.race.history import History, PredictCall
from tests.stress.race.registry_state import Change, Register, registers_of

TOLERANCE = 1e-4
# Not a violation: the service was overloaded, or the usable set changed during every attempt.
CLEAN = frozenset({503})

# The scores by label of a picture (by number) under a set of prompts (by number).
Truth = Callable[[frozenset[int], int], Mapping[str, float]]
Span = tuple[float, float]


@dataclass(frozen=True)
class Overlaps:
    """How many calls overlapped a deletion or revocation of a source that they might have used."""

    calls: int  # that were answered, or refused because the named source was gone
    raced: int  # of them, those that overlapped a removal from their user's set
    pairs: int  # of a call and a removal that overlap
    removals: int  # deletions and revocations, for each user whose set they changed


@dataclass(frozen=True)
class Violation:
    """An answer that no order of the events explains."""

    kind: str
    call: PredictCall
    detail: str


def find_violations(history: History, truth: Truth) -> list[Violation]:
    registers = registers_of(history.writes, {call.user for call in history.calls})
    prompts = {write.source: write.prompt for write in history.writes if write.operation == "publish"}
    violations = []
    observations: dict[tuple[str, str], list[_Observation]] = {}
    for call in history.calls:
        if not call.is_answered:
            if call.status not in CLEAN:
                violations.append(Violation("unclean", call, f"answered {call.status}"))
            continue
        concerned = _relevant_registers(registers[call.user], call)
        violations += _check_sources(call, concerned)
        violations += _check_scores(call, prompts, truth)
        for register in concerned:
            observations.setdefault((call.user, register.source), []).append(_observe(call, register))
    for user, mine in registers.items():
        for register in mine:
            violations += _check_order(register, observations.get((user, register.source), []))
    return sorted(violations, key=lambda violation: violation.call.sent)


def count_overlaps(history: History) -> Overlaps:
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


def _relevant_registers(registers: Sequence[Register], call: PredictCall) -> list[Register]:
    """Return the registers that the answer depends on: those it names, and those usable during the call."""
    if call.named_source is not None:
        return [register for register in registers if register.source == call.named_source]
    return [
        register
        for register in registers
        if register.source in call.sources or (register.begins <= call.received and register.ends >= call.sent)
    ]


def _check_sources(call: PredictCall, registers: Sequence[Register]) -> list[Violation]:
    """Check that the sources of the answer were the usable ones at a single moment."""
    first, last = _read_window(call), _recheck_window(call)
    known = {register.source for register in registers}
    errors = [("unknown", f"uses {one}, which is unknown or was not requested") for one in sorted(call.sources - known)]
    for register in registers:
        is_used = register.source in call.sources
        if is_used and not _any_overlap(register.spans(True), first):
            errors.append(("gone", f"uses {register.source}, which was gone when the request was sent"))
        elif is_used and not _any_overlap(register.spans(True), last):
            errors.append(("unchecked", f"uses {register.source}, which was gone before it was sent"))
        elif not is_used and not _any_overlap(register.spans(False), first):
            errors.append(("lost", f"lacks {register.source}, which was usable throughout"))
    if not errors and call.status == 200:
        if not _have_common_moment([register.spans(register.source in call.sources) for register in registers], first):
            errors.append(("torn", "its sources were never the usable set at one moment"))
        elif not _have_common_moment([one.spans(True) for one in registers if one.source in call.sources], last):
            errors.append(("unchecked", "its sources were no longer usable together when it was sent"))
    return [Violation(kind, call, detail) for kind, detail in errors]


def _check_scores(call: PredictCall, prompts: Mapping[str, int], truth: Truth) -> list[Violation]:
    """Check that the scores are those of the sources that the answer names."""
    if call.status != 200 or not call.sources <= prompts.keys():
        return []
    if not call.sources:
        return [Violation("scores", call, "the answer names no source")]
    expected = truth(frozenset(prompts[source] for source in call.sources), call.picture)
    scores = call.scores or {}
    wrong = {
        label: (scores.get(label), score)
        for label, score in expected.items()
        if label not in scores or not abs(scores[label] - score) <= TOLERANCE
    }
    if wrong or scores.keys() != expected.keys():
        return [Violation("scores", call, f"not those of its sources: {wrong or sorted(scores)}")]
    return []


@dataclass(frozen=True)
class _Observation:
    """The value of a register that an answer implies, and the window in which it was read."""

    call: PredictCall
    value: bool
    span: Span


def _observe(call: PredictCall, register: Register) -> _Observation:
    is_used = register.source in call.sources
    return _Observation(call, is_used, _recheck_window(call) if is_used else _read_window(call))


def _check_order(register: Register, observations: Sequence[_Observation]) -> list[Violation]:
    """Find answers that show the value before a change although an earlier answer shows the value after it.

    An observation that two changes could explain is accepted.
    """
    latest_before: dict[Change, _Observation] = {}  # the last observation before each change
    earliest_after: dict[Change, _Observation] = {}  # the first observation after each change
    for observation in observations:
        if _any_overlap(register.certain_spans(observation.value), observation.span):
            continue
        explaining = [one for one in register.changes if _overlap((one.sent, one.answered), observation.span)]
        if len(explaining) != 1:
            continue
        [change] = explaining
        if change.becomes is observation.value:
            if change not in earliest_after or observation.span[1] < earliest_after[change].span[1]:
                earliest_after[change] = observation
        elif change not in latest_before or observation.span[0] > latest_before[change].span[0]:
            latest_before[change] = observation
    violations = []
    for change in latest_before.keys() & earliest_after.keys():
        late, early = latest_before[change], earliest_after[change]
        if late.span[0] > early.span[1]:
            detail = f"does not show the {change.write.operation} of {register.source}, but an earlier answer does"
            violations.append(Violation("out of order", late.call, f"{detail}, to {early.call.client}"))
    return violations


def _read_window(call: PredictCall) -> Span:
    """Return the window in which the set was read: before the scores were computed."""
    return (call.sent, call.received if call.computed is None else call.computed)


def _recheck_window(call: PredictCall) -> Span:
    """Return the window in which the rights were rechecked: after the scores were computed."""
    return (call.sent if call.computed is None else call.computed, call.received)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _any_overlap(spans: Iterable[Span], window: Span) -> bool:
    return any(_overlap(span, window) for span in spans)


def _have_common_moment(needs: Sequence[Sequence[Span]], window: Span) -> bool:
    """Whether one moment of the window lies in a span of every element of `needs`."""
    left = [window]
    for spans in needs:
        left = [(max(a, c), min(b, d)) for a, b in left for c, d in spans if _overlap((a, b), (c, d))]
    return bool(left)
