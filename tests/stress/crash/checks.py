"""Check every response of a crash run: errors must be clean and answers must be right."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.stress.crash.journal import Call, Forget
from tests.stress.crash.kill import Outage
from tests.stress.crash.train_copies import Copy, ExpectedAnswer
from tests.stress.race.checker import TOLERANCE

SUCCESS_STATUS = {"predict": 200, "upload": 202, "extend": 202, "grant": 201, "forget": 202}
PROBLEM = "application/problem+json"
ERRORS = frozenset({502, 503, 504})

Truth = Callable[[frozenset[str], int], ExpectedAnswer]  # by prompts and the number of a picture


@dataclass(frozen=True)
class Violation:
    """A response that should not have been sent."""

    kind: str
    call: Call
    detail: str


@dataclass(frozen=True)
class Evidence:
    """What the checks know beside the calls."""

    outages: Sequence[Outage]
    forgets: Sequence[Forget]
    copies: Mapping[str, Copy]  # by prompt
    truth: Truth


def find_violations(calls: Sequence[Call], evidence: Evidence) -> Iterator[Violation]:
    """Yield the violations in the order of the calls."""
    for call in calls:
        if call.status == 0:
            yield from _check_connection(call, evidence.outages)
        elif call.status == SUCCESS_STATUS[call.what]:
            yield from _check_answer(call, evidence)
        else:
            yield from _check_error(call)


def prompts_in(call: Call) -> set[str]:
    return set(_sources_by_prompt(json.loads(call.body)))


def _sources_by_prompt(document: Any) -> dict[str, str]:  # Any: JSON that may be wrong
    explanations = document["results"][0]["explain"]
    return {one["prompt"]: explanation["source"] for explanation in explanations for one in explanation["prompts"]}


def _check_connection(call: Call, outages: Sequence[Outage]) -> Iterator[Violation]:
    """A connection may fail only while a replica that could have served it is down; it may never hang."""
    if "Timeout" in call.error:
        yield Violation("hung", call, call.error)
    elif not _was_down(call, outages):
        yield Violation("broken off", call, call.error)


def _was_down(call: Call, outages: Sequence[Outage]) -> bool:
    """Whether a replica that may have received the call was down meanwhile. The proxy is never killed."""
    down = [one for one in outages if one.part.startswith("replica-") and call.target in ("proxy", one.part)]
    return any(one.since <= call.received and one.until >= call.sent for one in down)


def _check_error(call: Call) -> Iterator[Violation]:
    """An error must have an expected status and be a problem document of ours."""
    if call.status not in ERRORS:
        yield Violation("unclean", call, f"{call.status} {call.body!r}")
        return
    document = _document(call, PROBLEM)
    if not isinstance(document, dict) or document.get("status") != call.status:
        yield Violation("unclean", call, f"{call.status} {call.media} {call.body!r}")
    elif not str(document.get("type")).startswith("urn:alacarte:problem:") or not document.get("title"):
        yield Violation("unclean", call, f"{call.status} {call.body!r}")


def _check_answer(call: Call, evidence: Evidence) -> Iterator[Violation]:
    """An answer must be readable, and its scores must be those of the prompts that it names."""
    document = _document(call, "application/json")
    if not isinstance(document, dict):
        yield Violation("broken", call, f"{call.media} {call.body!r}")
    elif call.what == "predict":
        try:
            prompts = _sources_by_prompt(document)
            scores = {one["label"]: one["score"] for one in document["results"][0]["labels"]}
            named = set(document["sources"])
        except (KeyError, IndexError, TypeError) as error:
            yield Violation("broken", call, repr(error))
            return
        yield from _check_scores(call, prompts, named, scores, str(document.get("set_digest")), evidence)
        yield from _check_forgotten(call, prompts, evidence)


def _check_scores(
    call: Call,
    prompts: Mapping[str, str],
    named: set[str],
    scores: Mapping[str, float],
    set_digest: str,
    evidence: Evidence,
) -> Iterator[Violation]:
    unknown = prompts.keys() - evidence.copies.keys()
    if unknown or not prompts:
        yield Violation("unknown", call, f"uses {sorted(unknown)}, which no worker has trained")
        return
    origins = {prompt: evidence.copies[prompt].source for prompt in prompts}
    if origins != dict(prompts) or set(origins.values()) != named:
        yield Violation("misnamed", call, f"names {sorted(named)}, but uses {sorted(set(origins.values()))}")
    expected = evidence.truth(frozenset(prompts), call.picture)
    true = expected.scores
    is_same = scores.keys() == true.keys() and all(abs(scores[label] - true[label]) <= TOLERANCE for label in true)
    if not is_same or set_digest != expected.set_digest:
        yield Violation("scores", call, f"{dict(scores)} by {set_digest}, and not {expected}")


def _check_forgotten(call: Call, prompts: Mapping[str, str], evidence: Evidence) -> Iterator[Violation]:
    """An answer must not use what was forgotten before the request was sent."""
    copies = [evidence.copies[prompt] for prompt in prompts if prompt in evidence.copies]
    for one in evidence.forgets:
        if call.sent < one.answered:
            continue
        if any(copy.source == one.source and (one.sample is None or one.sample in copy.samples) for copy in copies):
            yield Violation("remembered", call, f"uses {one.sample or 'all'} of {one.source}, which was forgotten")


def _document(call: Call, media: str) -> object:
    if call.media != media:
        return None
    try:
        return json.loads(call.body)
    except ValueError:
        return None
