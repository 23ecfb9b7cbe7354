"""The race checker on handmade histories: it accepts the good ones and finds the violation in the bad ones."""

from collections.abc import Mapping
from dataclasses import replace
from math import nan

import pytest

from tests.stress.race.checker import count_overlaps, find_violations
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
}
BAD: dict[str, tuple[tuple[Write, ...], PredictCall, str]] = {
    "sent after the deletion was answered": (DELETED, call(13, 14, *BOTH), "gone"),
    "sent after the revocation was answered": (REVOKED, call(13, 14, *BOTH), "gone"),
    "received before the grant was sent": (BEGINNING, call(1.2, 1.4, "ann"), "gone"),
    "computed after the deletion was answered": (DELETED, call(5, 30, *BOTH, computed=13), "unchecked"),
    "computed after the revocation, left before the grant": (REVOKED, call(5, 19, *BOTH, computed=13), "unchecked"),
    "lacks what was usable": (DELETED, call(5, 6, *BOB), "lost"),
    "lacks what was usable until its scores were there": (DELETED, call(5, 30, *BOB, computed=9), "lost"),
    "lacks what was granted again": (REVOKED, call(23, 24, *BOB), "lost"),
    "named, usable, and not found": (DELETED, call(5, 6, named_source="ann", status=404), "lost"),
    "named and gone, and answered": (DELETED, call(13, 14, "ann", named_source="ann"), "gone"),
    "beyond what was named": (DELETED, call(5, 6, *BOTH, named_source="bob"), "unknown"),
    "of a source that nobody made": (BEGINNING, replace(call(5, 6, *BOTH), sources=frozenset((*BOTH, "x"))), "unknown"),
    "its name left out, its scores not": (DELETED, call(13, 14, *BOB, scored_by=BOTH), "scores"),
    "named, and not in the scores": (DELETED, call(5, 6, *BOTH, scored_by=BOB), "scores"),
    "without scores": (DELETED, replace(call(5, 6, *BOTH), scores=None), "scores"),
    "a score that is no number": (DELETED, replace(call(13, 14, *BOB), scores=NO_NUMBERS), "scores"),
    "by nothing": (BEGINNING, replace(call(0.1, 0.2, *BOB), sources=frozenset()), "scores"),
    "an error": (DELETED, call(5, 6, status=500), "unclean"),
    "no answer at all": (DELETED, call(5, 6, status=0), "unclean"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_that_some_order_of_events_explains_is_accepted(name: str) -> None:
    writes, calls = GOOD[name]

    assert kinds(writes, *calls) == []


@pytest.mark.parametrize("name", BAD)
def test_an_answer_that_no_order_of_events_explains_is_a_violation(name: str) -> None:
    writes, bad, kind = BAD[name]

    assert kinds(writes, bad) == [kind]


def test_two_answers_must_agree_on_when_a_source_was_deleted() -> None:
    without, then_with = call(10.2, 10.4, *BOB), call(10.6, 10.8, *BOTH)

    assert kinds(DELETED, without, then_with) == ["out of order"]
    assert kinds(DELETED, without, replace(then_with, sent=10.3)) == []  # at the same time: either may have been first


def test_two_answers_must_agree_on_when_a_right_was_granted() -> None:
    with_it, then_without = call(20.2, 20.4, *BOTH), call(20.6, 20.8, *BOB)

    assert kinds(REVOKED, with_it, then_without) == ["out of order"]
    assert kinds(REVOKED, then_without, replace(with_it, sent=21, received=21.5)) == []


def test_the_sources_of_an_answer_were_usable_at_one_moment() -> None:
    # bob's comes after ann's has gone: each was usable during the call, but never both at once.
    writes = (
        *DELETED[:2],
        write("delete", "ann", 10, 11),
        write("publish", "bob", 12, 13),
        write("grant", "bob", 14, 15),
    )

    assert kinds(writes, call(5, 20, *BOTH)) == ["torn"]
    assert kinds(writes, call(5, 20, "ann"), call(5, 20, "bob")) == []


def test_a_revocation_of_somebody_else_takes_nothing() -> None:
    writes = (*BEGINNING, replace(write("revoke", "ann", 10, 12), user="fay"))

    assert kinds(writes, call(13, 14, *BOTH)) == []
    assert kinds(writes, call(13, 14, *BOB)) == ["lost"]


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

    found = count_overlaps(History(REVOKED, calls))

    assert (found.calls, found.raced, found.pairs, found.removals) == (6, 2, 2, 1)


def test_a_deletion_after_a_revocation_takes_nothing_more() -> None:
    writes = (*BEGINNING, write("revoke", "ann", 10, 12), write("delete", "ann", 13, 14))

    assert count_overlaps(History(writes, (call(9, 20, *BOTH),))).removals == 1
