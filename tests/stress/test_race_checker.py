"""The race checker on handmade histories: it accepts the good ones and finds the violation in the bad ones."""

from collections.abc import Mapping
from dataclasses import replace
from math import nan

import pytest

from tests.stress.race.checker import Overlaps, count_overlaps, find_violations
from tests.stress.race.history import History, Operation, PredictCall, Write

# ann's source is published and granted to eva from 0 to 3; bob's is permanent.
PROMPTS = {"ann": 1, "bob": 2}


def truth(prompts: frozenset[int], picture: int) -> Mapping[str, float]:
    """Return scores in which each prompt prefers its own label."""
    return {f"label {number}": (number in prompts) / len(prompts) for number in PROMPTS.values()}


def write(operation: Operation, source: str, sent: float, answered: float) -> Write:
    return Write(operation, source, sent, answered, "eva" if operation in ("grant", "revoke") else "", PROMPTS[source])


BEGINNING = (
    write("publish", "ann", 0, 1),
    write("grant", "ann", 2, 3),
    write("publish", "bob", 0, 1),
    write("grant", "bob", 2, 3),
)
DELETED = (*BEGINNING, write("delete", "ann", 10, 12))
REVOKED = (*BEGINNING, write("revoke", "ann", 10, 12), write("grant", "ann", 20, 22))
REVOKED_FROM_FAY = (*BEGINNING, replace(write("revoke", "ann", 10, 12), user="fay"))
# bob's comes after ann's has gone: each is usable during a long call, but never both at once.
ONE_AFTER_THE_OTHER = (
    *BEGINNING[:2],
    write("delete", "ann", 10, 11),
    write("publish", "bob", 12, 13),
    write("grant", "bob", 14, 15),
)
BOTH, BOB = ("ann", "bob"), ("bob",)
NO_NUMBERS = {"label 1": nan, "label 2": nan}


def call(
    sent: float,
    received: float,
    *sources: str,
    computed: float | None = None,
    status: int = 200,
    named_source: str | None = None,
    scored_by: tuple[str, ...] | None = None,
) -> PredictCall:
    scores = truth(frozenset(PROMPTS[name] for name in scored_by or sources), 0) if status == 200 else None
    return PredictCall("one", "eva", 0, sent, received, status, named_source, computed, frozenset(sources), scores)


def kinds(writes: tuple[Write, ...], *calls: PredictCall) -> list[str]:
    return [violation.kind for violation in find_violations(History(writes, calls), truth)]


GOOD: dict[str, tuple[tuple[Write, ...], list[PredictCall]]] = {
    "before the deletion": (DELETED, [call(5, 6, *BOTH)]),
    "under way with it": (DELETED, [call(9, 11, *BOTH), call(9, 11, *BOB)]),
    "sent while it was under way": (DELETED, [call(11, 15, *BOTH)]),
    "received long after it": (DELETED, [call(5, 30, *BOTH)]),
    "after it": (DELETED, [call(13, 14, *BOB)]),
    "before the grant": (DELETED, [call(0.5, 1.5, *BOB, status=503)]),
    "while it was granted": (BEGINNING, [call(2.5, 2.6, *BOTH), call(2.5, 2.6, *BOB)]),
    "while it was revoked": (REVOKED, [call(14, 15, *BOB)]),
    "when it was granted again": (REVOKED, [call(23, 24, *BOTH)]),
    "while it was granted again": (REVOKED, [call(21, 21.5, *BOTH), call(20.5, 20.6, *BOB)]),
    "through all of it": (REVOKED, [call(9, 30, *BOTH), call(9, 30, *BOB)]),
    "named and usable": (DELETED, [call(5, 6, "ann", named_source="ann")]),
    "named and gone": (DELETED, [call(13, 14, named_source="ann", status=404)]),
    "computed before the deletion was answered": (DELETED, [call(5, 30, *BOTH, computed=11.5)]),
    "computed again without it": (DELETED, [call(5, 30, *BOB, computed=25)]),
    "refused by overload": (DELETED, [call(5, 6, status=503)]),
    "at the same time, in either order": (DELETED, [call(10.2, 10.4, *BOB), call(10.3, 10.8, *BOTH)]),
    "after a grant that no earlier answer shows": (REVOKED, [call(20.6, 20.8, *BOB), call(21, 21.5, *BOTH)]),
    "of one source after the other": (ONE_AFTER_THE_OTHER, [call(5, 20, "ann"), call(5, 20, "bob")]),
    "revoked from somebody else": (REVOKED_FROM_FAY, [call(13, 14, *BOTH)]),
}
BAD: dict[str, tuple[tuple[Write, ...], str, list[PredictCall]]] = {
    "sent after the deletion was answered": (DELETED, "gone", [call(13, 14, *BOTH)]),
    "sent after the revocation was answered": (REVOKED, "gone", [call(13, 14, *BOTH)]),
    "received before the grant was sent": (BEGINNING, "gone", [call(1.2, 1.4, "ann")]),
    "computed after the deletion was answered": (DELETED, "unchecked", [call(5, 30, *BOTH, computed=13)]),
    "computed after the revocation, left before the grant": (REVOKED, "unchecked", [call(5, 19, *BOTH, computed=13)]),
    "lacks what was usable": (DELETED, "lost", [call(5, 6, *BOB)]),
    "lacks what was usable until its scores were there": (DELETED, "lost", [call(5, 30, *BOB, computed=9)]),
    "lacks what was granted again": (REVOKED, "lost", [call(23, 24, *BOB)]),
    "named, usable, and not found": (DELETED, "lost", [call(5, 6, named_source="ann", status=404)]),
    "named and gone, and answered": (DELETED, "gone", [call(13, 14, "ann", named_source="ann")]),
    "beyond what was named": (DELETED, "unknown", [call(5, 6, *BOTH, named_source="bob")]),
    "of an unknown source": (BEGINNING, "unknown", [replace(call(5, 6, *BOTH), sources=frozenset((*BOTH, "x")))]),
    "its name left out, its scores not": (DELETED, "scores", [call(13, 14, *BOB, scored_by=BOTH)]),
    "named, and not in the scores": (DELETED, "scores", [call(5, 6, *BOTH, scored_by=BOB)]),
    "without scores": (DELETED, "scores", [replace(call(5, 6, *BOTH), scores=None)]),
    "a score that is no number": (DELETED, "scores", [replace(call(13, 14, *BOB), scores=NO_NUMBERS)]),
    "by nothing": (BEGINNING, "scores", [replace(call(0.1, 0.2, *BOB), sources=frozenset())]),
    "an error": (DELETED, "unclean", [call(5, 6, status=500)]),
    "no answer at all": (DELETED, "unclean", [call(5, 6, status=0)]),
    "a deletion undone": (DELETED, "out of order", [call(10.2, 10.4, *BOB), call(10.6, 10.8, *BOTH)]),
    "a grant undone": (REVOKED, "out of order", [call(20.2, 20.4, *BOTH), call(20.6, 20.8, *BOB)]),
    "of sources that were never usable at one moment": (ONE_AFTER_THE_OTHER, "torn", [call(5, 20, *BOTH)]),
    "lacks what was revoked from somebody else": (REVOKED_FROM_FAY, "lost", [call(13, 14, *BOB)]),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_that_some_order_of_events_explains_is_accepted(name: str) -> None:
    writes, calls = GOOD[name]

    assert kinds(writes, *calls) == []


@pytest.mark.parametrize("name", BAD)
def test_an_answer_that_no_order_of_events_explains_is_a_violation(name: str) -> None:
    writes, kind, calls = BAD[name]

    assert kinds(writes, *calls) == [kind]


def test_a_source_that_was_made_again_is_another() -> None:
    writes = (*DELETED, Write("publish", "new", 20, 21, prompt=1), Write("grant", "new", 22, 23, "eva"))
    again = replace(call(24, 25, *BOTH), sources=frozenset({"new", "bob"}))

    assert kinds(writes, again) == []
    assert "gone" in kinds(writes, call(24, 25, *BOTH))


def test_writes_to_one_source_at_once_are_refused() -> None:
    with pytest.raises(AssertionError, match="order"):
        kinds((*BEGINNING, write("revoke", "ann", 10, 12), write("delete", "ann", 11, 13)), call(5, 6, *BOTH))


def test_overlaps_are_of_what_the_user_could_use() -> None:
    calls = (
        call(9, 11, *BOTH),  # meets it
        call(11.5, 30, *BOB),  # meets it
        call(5, 6, *BOTH),  # long before
        call(13, 14, *BOB),  # after
        call(9, 11, "bob", named_source="bob"),  # names another source
        replace(call(9, 11, *BOTH), user="fay"),  # had nothing to lose
        call(9, 11, status=503),  # no answer
    )

    assert count_overlaps(History(REVOKED, calls)) == Overlaps(calls=6, raced=2, pairs=2, removals=1)


def test_a_deletion_after_a_revocation_takes_nothing_more() -> None:
    writes = (*BEGINNING, write("revoke", "ann", 10, 12), write("delete", "ann", 13, 14))

    assert count_overlaps(History(writes, (call(9, 20, *BOTH),))).removals == 1
