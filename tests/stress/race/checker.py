"""Decides over a history whether deletion and revocation were linearizable, and whether answers rest on what they say.

An answer must be explained by what was usable at one moment between its sending and its receipt; what it rests on must
have been usable still at a moment after its scores were there, since rights are looked at once more before it leaves;
and all answers together must agree on when each change took place.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.stress.race.history import Ask, History
from tests.stress.race.registry_state import Change, Register, registers_of

TOLERANCE = 1e-4
# A refusal that is no wrong answer: too much was asked, or what may be used changed again and again.
CLEAN = frozenset({503})

# What a set of prompts says of a picture: the prompts by number, the picture by number; scores by label.
Truth = Callable[[frozenset[int], int], Mapping[str, float]]
Span = tuple[float, float]


@dataclass(frozen=True)
class Violation:
    """An answer that no order of what happened explains."""

    kind: str
    ask: Ask
    detail: str


def find_violations(history: History, truth: Truth) -> list[Violation]:
    """Everything that is wrong, in the order of the asks; nothing if the history is as promised."""
    registers = registers_of(history.writes, {ask.user for ask in history.asks})
    prompts = {write.source: write.prompt for write in history.writes if write.operation == "publish"}
    found = []
    readings: dict[tuple[str, str], list[_Reading]] = {}
    for ask in history.asks:
        if not ask.is_answered:
            if ask.status not in CLEAN:
                found.append(Violation("unclean", ask, f"answered {ask.status}"))
            continue
        concerned = _concerned(registers[ask.user], ask)
        found += _misplaced(ask, concerned)
        found += _misjudged(ask, prompts, truth)
        for register in concerned:
            readings.setdefault((ask.user, register.source), []).append(_reading(ask, register))
    for user, mine in registers.items():
        for register in mine:
            found += _disagreements(register, readings.get((user, register.source), []))
    return sorted(found, key=lambda violation: violation.ask.sent)


def _concerned(registers: Sequence[Register], ask: Ask) -> list[Register]:
    """Those that the answer says something about: usable perhaps while it was asked, or named in it."""
    if ask.asked is not None:
        return [register for register in registers if register.source == ask.asked]
    return [
        register
        for register in registers
        if register.source in ask.sources or (register.begins <= ask.received and register.ends >= ask.sent)
    ]


def _misplaced(ask: Ask, registers: Sequence[Register]) -> list[Violation]:
    """What no single moment explains."""
    first, last = _read_within(ask), _checked_within(ask)
    known = {register.source for register in registers}
    found = [Violation("unknown", ask, f"rests on {one}, unasked or unheard of") for one in sorted(ask.sources - known)]
    for register in registers:
        is_used = register.source in ask.sources
        if is_used and not _meets(register.spans(True), first):
            found.append(Violation("gone", ask, f"rests on {register.source}, which was gone when it was sent"))
        elif is_used and not _meets(register.spans(True), last):
            found.append(Violation("unchecked", ask, f"rests on {register.source}, which was gone before it left"))
        elif not is_used and not _meets(register.spans(False), first):
            found.append(Violation("lost", ask, f"lacks {register.source}, which was usable all the time"))
    if not found and ask.status == 200:
        if not _common([register.spans(register.source in ask.sources) for register in registers], first):
            found.append(Violation("torn", ask, "its sources were never the usable ones at one moment"))
        elif not _common([one.spans(True) for one in registers if one.source in ask.sources], last):
            found.append(Violation("unchecked", ask, "its sources were not usable together any more when it left"))
    return found


def _misjudged(ask: Ask, prompts: Mapping[str, int], truth: Truth) -> list[Violation]:
    """Scores that are not those of the sources that the answer names."""
    if ask.status != 200 or not ask.sources <= prompts.keys():
        return []
    if not ask.sources:
        return [Violation("scores", ask, "an answer that rests on nothing")]
    expected = truth(frozenset(prompts[source] for source in ask.sources), ask.picture)
    scores = ask.scores or {}
    wrong = {
        label: (scores.get(label), score)
        for label, score in expected.items()
        if label not in scores or not abs(scores[label] - score) <= TOLERANCE
    }
    if wrong or scores.keys() != expected.keys():
        return [Violation("scores", ask, f"not those of its sources: {wrong or sorted(scores)}")]
    return []


@dataclass(frozen=True)
class _Reading:
    """What an answer says of a register, and when it was so at the earliest and latest."""

    ask: Ask
    value: bool
    span: Span


def _reading(ask: Ask, register: Register) -> _Reading:
    is_used = register.source in ask.sources
    return _Reading(ask, is_used, _checked_within(ask) if is_used else _read_within(ask))


def _disagreements(register: Register, readings: Sequence[_Reading]) -> list[Violation]:
    """Answers that saw a change already, and others later that did not see it yet.

    A reading that two changes could explain is believed.
    """
    olds: dict[Change, _Reading] = {}  # the latest that must have been before the change
    news: dict[Change, _Reading] = {}  # the earliest that must have been after it
    for reading in readings:
        if _meets(register.certain_spans(reading.value), reading.span):
            continue
        explaining = [one for one in register.changes if _overlap((one.sent, one.answered), reading.span)]
        if len(explaining) != 1:
            continue
        [change] = explaining
        if change.becomes is reading.value:
            if change not in news or reading.span[1] < news[change].span[1]:
                news[change] = reading
        elif change not in olds or reading.span[0] > olds[change].span[0]:
            olds[change] = reading
    found = []
    for change in olds.keys() & news.keys():
        late, early = olds[change], news[change]
        if late.span[0] > early.span[1]:
            what = f"does not show yet what was done to {register.source} ({change.write.operation}), "
            found.append(Violation("out of order", late.ask, what + f"but an earlier one of {early.ask.client} does"))
    return found


def _read_within(ask: Ask) -> Span:
    """When the set of the answer was read: it had to be before scores came of it."""
    return (ask.sent, ask.received if ask.computed is None else ask.computed)


def _checked_within(ask: Ask) -> Span:
    """When what the answer rests on was looked at for the last time."""
    return (ask.sent if ask.computed is None else ask.computed, ask.received)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _meets(spans: Iterable[Span], window: Span) -> bool:
    return any(_overlap(span, window) for span in spans)


def _common(needs: Sequence[Sequence[Span]], window: Span) -> bool:
    """Whether one moment of the window lies in a span of every need."""
    left = [window]
    for spans in needs:
        left = [(max(a, c), min(b, d)) for a, b in left for c, d in spans if _overlap((a, b), (c, d))]
    return bool(left)
