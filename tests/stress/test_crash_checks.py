"""The checks of crash runs on handmade histories: they accept the good ones and find the violation in the bad ones."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from tests.stress.crash.checks import Evidence, find_violations
from tests.stress.crash.final_state import Rows, misplaced_uploads, untrained_shards
from tests.stress.crash.journal import Call, Forget, Journal, Upload
from tests.stress.crash.kill import Outage
from tests.stress.crash.train_copies import Copy, ExpectedAnswer
from tests.stress.crash.uploads import UploadArchive

ANN, BOB = str(UUID(int=1)), str(UUID(int=2))
COPIES = {
    "a1": Copy(ANN, "shard a", 1, frozenset({"x", "y"}), b"first"),
    "a2": Copy(ANN, "shard a", 2, frozenset({"y"}), b"second"),
    "b1": Copy(BOB, "shard b", 1, frozenset({"z"}), b"third"),
}


def truth(prompts: frozenset[str], picture: int) -> ExpectedAnswer:
    share = sum(prompt.startswith("a") for prompt in prompts) / len(prompts)
    return ExpectedAnswer({"cat": share, "dog": 1 - share}, "+".join(sorted(prompts)))


# The first replica is down from 10 to 20; x of ann's source is forgotten from 30 to 31, bob's source from 40 to 41.
EVIDENCE = Evidence(
    (Outage("replica-1", 10, 20), Outage("postgres", 50, 60)),
    (Forget(ANN, "x", 30, 31, "erasure 1"), Forget(BOB, None, 40, 41, "erasure 2")),
    COPIES,
    truth,
)


def predicted(sent: float, *prompts: str, scored_by: tuple[str, ...] | None = None) -> Call:
    expected = truth(frozenset(scored_by or prompts), 0)
    origins = [(COPIES[prompt].source if prompt in COPIES else ANN, prompt) for prompt in prompts]
    result = {
        "labels": [{"label": label, "score": score} for label, score in expected.scores.items()],
        "explain": [{"source": source, "prompts": [{"prompt": prompt}]} for source, prompt in origins],
    }
    document = {"sources": sorted(dict(origins)), "set_digest": expected.set_digest, "results": [result]}
    body = json.dumps(document).encode()
    return Call("predict", "/predict", "proxy", sent, sent + 0.5, 200, "application/json", body)


def refused(status: int, *, body_status: int | None = None, media: str = "application/problem+json") -> Call:
    problem = {"type": "urn:alacarte:problem:away", "title": "Away", "status": body_status or status, "detail": "wait"}
    return Call("predict", "/predict", "proxy", 11, 12, status, media, json.dumps(problem).encode())


def failed(target: str, sent: float, error: str = "ConnectError('refused')") -> Call:
    return Call("predict", "/predict", target, sent, sent + 1, 0, error=error)


def forget_refused(sent: float, status: int) -> Call:
    return replace(refused(status), what="forget", path="/sources/1", sent=sent, received=sent + 1)


GOOD = {
    "an answer": [predicted(1, "a1", "b1")],
    "an answer that was asked for before something of it was forgotten": [predicted(30.5, "a1"), predicted(40.5, "b1")],
    "an answer by what was learnt without the forgotten": [predicted(35, "a2", "b1")],
    "no replica behind the proxy": [refused(502)],
    "something away": [refused(503), refused(504)],
    "a connection to a replica that is down": [failed("replica-1", 11), failed("replica-1", 9.5)],
    "a proxied answer that broke off with its replica": [failed("proxy", 19.5)],
}
BAD = {
    "an error of ours": ([refused(500)], "unclean"),
    "rights that seem to be gone": ([refused(401)], "unclean"),
    "an error in other words": ([refused(503, media="text/html")], "unclean"),
    "an error that says another status": ([refused(503, body_status=500)], "unclean"),
    "gone, instead of by which erasure": ([forget_refused(23, 404)], "unclean"),
    "gone, since the first response was lost": ([forget_refused(23, 503), forget_refused(25, 404)], "unclean"),
    "gone, since a replica died before it could say so": ([forget_refused(13, 404)], "unclean"),
    "a connection to a replica that is up": ([failed("replica-2", 11)], "broken off"),
    "a connection after the replica was up again": ([failed("replica-1", 21)], "broken off"),
    "a connection while only the database was down": ([failed("proxy", 55)], "broken off"),
    "an answer that never comes": ([failed("replica-1", 11, "ReadTimeout('timed out')")], "hung"),
    "half a body": ([replace(predicted(1, "a1"), body=predicted(1, "a1").body[:-9])], "broken"),
    "a body of another kind": ([replace(predicted(1, "a1"), media="text/plain")], "broken"),
    "a body without scores": ([replace(predicted(1, "a1"), body=b"{}")], "broken"),
    "scores of another set": ([predicted(1, "a1", scored_by=("a1", "b1"))], "scores"),
    "a prompt that nobody trained": ([predicted(1, "a1", "c1")], "unknown"),
    "what was learnt from a forgotten picture": ([predicted(32, "a1")], "remembered"),
    "a forgotten source": ([predicted(42, "a2", "b1")], "remembered"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_may_happen_while_parts_are_killed_is_accepted(name: str) -> None:
    assert list(find_violations(GOOD[name], EVIDENCE)) == []


@pytest.mark.parametrize("name", BAD)
def test_what_may_not_happen_is_a_violation(name: str) -> None:
    calls, kind = BAD[name]

    assert [error.kind for error in find_violations(calls, EVIDENCE)] == [kind]


FIRST = UploadArchive("secret source 1", {"cat/1.png": b"1", "dog/2.png": b"2"})
SECOND = UploadArchive("secret source 2", {"cat/3.png": b"3", "dog/4.png": b"4"})
ONE, TWO, THREE, FOUR = (digest for archive in (FIRST, SECOND) for digest in archive.by_digest)


def rows(**digests: set[str]) -> Rows:
    """Return sources by the number in their names, with these samples, each in one trained shard."""
    made = Rows([], [], [], [], [])
    for name, samples in digests.items():
        number = int(name.removeprefix("source_"))
        source, shard = UUID(int=number), UUID(int=100 + number)
        made.sources.append(Source(id=source, name=f"secret source {number}"))
        made.shards.append(Shard(id=shard, source_id=source, generation=1))
        made.samples.extend(Sample(source_id=source, shard_id=shard, digest=digest) for digest in samples)
        made.prompts.append(Prompt(id=shard, shard_id=shard, generation=1, key=f"key {number}"))
    return made


def journal(*entries: Upload | Forget) -> Journal:
    made = Journal()
    made.uploads += [entry for entry in entries if isinstance(entry, Upload)]
    made.forgets += [entry for entry in entries if isinstance(entry, Forget)]
    return made


SURE = Upload(FIRST, True, ANN)
DOUBTFUL_SOURCE = Upload(SECOND, False, None)
DOUBTFUL_ADDITION = Upload(SECOND, False, ANN)
FORGOT_ONE, FORGOT_ALL = Forget(ANN, ONE, 0, 1, "e"), Forget(ANN, None, 0, 1, "e")
MATCHING = [
    (rows(source_1={ONE, TWO}), journal(SURE)),
    (rows(source_1={TWO}), journal(SURE, FORGOT_ONE)),
    (rows(), journal(SURE, FORGOT_ALL)),
    (rows(source_1={ONE, TWO}), journal(SURE, DOUBTFUL_SOURCE)),
    (rows(source_1={ONE, TWO}, source_2={THREE, FOUR}), journal(SURE, DOUBTFUL_SOURCE)),
    (rows(source_1={ONE, TWO}), journal(SURE, DOUBTFUL_ADDITION)),
    (rows(source_1={ONE, TWO, THREE, FOUR}), journal(SURE, DOUBTFUL_ADDITION)),
]
LOST = [
    (rows(), journal(SURE), "lacks 2 of 2"),
    (rows(source_1={ONE}), journal(SURE), "lacks 1 of 2"),
    (rows(source_1={ONE, TWO}), journal(SURE, FORGOT_ONE), "were forgotten"),
    (rows(source_1={ONE, TWO}), journal(SURE, FORGOT_ALL), "was forgotten, but exists"),
    (rows(source_1={ONE, TWO}, source_2={THREE}), journal(SURE, DOUBTFUL_SOURCE), "has 1 of"),
    (rows(source_1={ONE, TWO, FOUR}), journal(SURE, DOUBTFUL_ADDITION), "has 1 of"),
    (rows(source_1={ONE, TWO}, source_2={THREE, FOUR}), journal(SURE), "never uploaded"),
]


@pytest.mark.parametrize(("stored", "recorded"), MATCHING)
def test_uploads_that_match_the_journal_are_accepted(stored: Rows, recorded: Journal) -> None:
    assert list(misplaced_uploads(stored, recorded)) == []


@pytest.mark.parametrize(("stored", "recorded", "error"), LOST)
def test_uploads_that_do_not_match_the_journal_are_found(stored: Rows, recorded: Journal, error: str) -> None:
    [message] = misplaced_uploads(stored, recorded)

    assert error in message


def test_shards_without_the_prompt_of_their_own_pictures_are_found() -> None:
    stored = rows(source_1={ONE, TWO})
    prompt = str(UUID(int=101))
    copy = Copy(ANN, prompt, 1, frozenset({ONE, TWO}), b"learnt")

    assert list(untrained_shards(stored, {prompt: copy}, {"key 1": b"learnt"})) == []
    [changed] = untrained_shards(stored, {prompt: copy}, {"key 1": b"something else"})
    assert "another" in changed
    [other] = untrained_shards(stored, {prompt: replace(copy, samples=frozenset({ONE}))}, {"key 1": b"learnt"})
    assert "other pictures" in other
    [old] = untrained_shards(replace(stored, prompts=[Prompt(shard_id=UUID(int=101), generation=0)]), {}, {})
    assert "no prompt" in old
