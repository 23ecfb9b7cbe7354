"""Decides over what people were told in a crash run: whether errors were clean, and answers right."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.stress.crash.journal import Call, Forget
from tests.stress.crash.kill import Outage
from tests.stress.crash.train_copies import Copy, Said
from tests.stress.race.checker import TOLERANCE

OWN = {"predict": 200, "upload": 202, "extend": 202, "grant": 201, "forget": 202}
PROBLEM = "application/problem+json"
ERRORS = frozenset({502, 503, 504})

Truth = Callable[[frozenset[str], int], Said]  # by prompts and the number of a picture


@dataclass(frozen=True)
class Violation:
    """Something that nobody should have been told."""

    kind: str
    call: Call
    detail: str


@dataclass(frozen=True)
class Evidence:
    """What a check_history knows beside the calls."""

    outages: Sequence[Outage]
    forgets: Sequence[Forget]
    copies: Mapping[str, Copy]  # by prompt
    truth: Truth


def find_violations(calls: Sequence[Call], evidence: Evidence) -> Iterator[Violation]:
    """Everything that is wrong, in the order of the calls."""
    for call in calls:
        if call.status == 0:
            yield from _unheard(call, evidence.outages)
        elif call.status == OWN[call.what]:
            yield from _wrong(call, evidence)
        else:
            yield from _unclean(call)


def prompts_in(call: Call) -> set[str]:
    """The prompts that an answer says it rests on."""
    told = json.loads(call.body)
    return {one["prompt"] for said in told["results"][0]["explain"] for one in said["prompts"]}


def _unheard(call: Call, outages: Sequence[Outage]) -> Iterator[Violation]:
    """A connection that was refused or broke off, though nobody was killed who could have kept it up."""
    if "Timeout" in call.fault:
        yield Violation("hung", call, call.fault)
    elif not _was_down(call, outages):
        yield Violation("broken off", call, call.fault)


def _was_down(call: Call, outages: Sequence[Outage]) -> bool:
    """Whether a replica was down meanwhile that may have been asked; the proxy, which is never killed, asks any."""
    down = [one for one in outages if one.part.startswith("replica-") and call.place in ("proxy", one.part)]
    return any(one.since <= call.received and one.until >= call.sent for one in down)


def _unclean(call: Call) -> Iterator[Violation]:
    """An error of another kind, or in other words than ours."""
    if call.status not in ERRORS:
        yield Violation("unclean", call, f"{call.status} {call.body!r}")
        return
    told = _document(call, PROBLEM)
    if not isinstance(told, dict) or told.get("status") != call.status:
        yield Violation("unclean", call, f"{call.status} {call.media} {call.body!r}")
    elif not str(told.get("type")).startswith("urn:alacarte:problem:") or not told.get("title"):
        yield Violation("unclean", call, f"{call.status} {call.body!r}")


def _wrong(call: Call, evidence: Evidence) -> Iterator[Violation]:
    """An answer whose body is broken, or that is not that of the set that it names."""
    told = _document(call, "application/json")
    if not isinstance(told, dict):
        yield Violation("broken", call, f"{call.media} {call.body!r}")
    elif call.what == "predict":
        try:
            prompts = {
                one["prompt"]: said["source"] for said in told["results"][0]["explain"] for one in said["prompts"]
            }
            scores = {one["label"]: one["score"] for one in told["results"][0]["labels"]}
            named = set(told["sources"])
        except (KeyError, IndexError, TypeError) as error:
            yield Violation("broken", call, repr(error))
            return
        yield from _misjudged(call, prompts, named, scores, str(told.get("set_digest")), evidence)
        yield from _remembered(call, prompts, evidence)


def _misjudged(
    call: Call,
    prompts: Mapping[str, str],
    named: set[str],
    scores: Mapping[str, float],
    set_digest: str,
    evidence: Evidence,
) -> Iterator[Violation]:
    unknown = prompts.keys() - evidence.copies.keys()
    if unknown or not prompts:
        yield Violation("unknown", call, f"rests on {sorted(unknown)}, which nobody has trained")
        return
    origins = {prompt: evidence.copies[prompt].source for prompt in prompts}
    if origins != dict(prompts) or set(origins.values()) != named:
        yield Violation("misnamed", call, f"names {sorted(named)}, and rests on {sorted(set(origins.values()))}")
    expected = evidence.truth(frozenset(prompts), call.picture)
    true = expected.scores
    is_same = scores.keys() == true.keys() and all(abs(scores[label] - true[label]) <= TOLERANCE for label in true)
    if not is_same or set_digest != expected.set_digest:
        yield Violation("scores", call, f"{dict(scores)} by {set_digest}, and not {expected}")


def _remembered(call: Call, prompts: Mapping[str, str], evidence: Evidence) -> Iterator[Violation]:
    """An answer that was asked for when something was forgotten already, and rests on it."""
    learnt = [evidence.copies[prompt] for prompt in prompts if prompt in evidence.copies]
    for one in evidence.forgets:
        if call.sent < one.answered:
            continue
        if any(copy.source == one.source and (one.sample is None or one.sample in copy.samples) for copy in learnt):
            yield Violation("remembered", call, f"rests on {one.sample or 'all'} of {one.source}, which was forgotten")


def _document(call: Call, media: str) -> object:
    if call.media != media:
        return None
    try:
        return json.loads(call.body)
    except ValueError:
        return None
