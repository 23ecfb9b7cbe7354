"""The load of a crash run: clients predict, an owner uploads, an admin grants and forgets."""

import json
import random
import time
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from tests.service.deployment import archive as packed
from tests.stress.crash.journal import Call, Forget, Journal, Upload, What
from tests.stress.crash.uploads import UploadArchive, random_archive
from tests.stress.race.fixtures import PICTURES, picture_text

MAX_SOURCES = 8  # at a time; more make each prediction slower
ANSWER_SECONDS = 120.0  # no response takes longer, whatever was killed
BACK_SECONDS = 0.2  # between a failed prediction and the next
TRY_SECONDS = 600.0  # before retries are given up
EXTENDED_SHARE = 0.3  # of the uploads
TEMPORARY_SHARE = 0.5  # of the sources
MAX_PERMANENT = 3  # beyond, all are temporary


@dataclass
class KnownSource:
    """A source that certainly exists. Threads share it without a lock: every change is one atomic operation."""

    samples: set[str]  # that may be forgotten
    is_temporary: bool  # so it will be forgotten
    is_granted: bool = False  # to the predicting user


KnownSources = dict[str, KnownSource]  # by id


class Caller:
    """One user's calls; all are recorded, and no error is raised.

    Each call has its own connection, so that none is older than the last kill.
    """

    def __init__(self, addresses: dict[str, str], token: str, journal: Journal) -> None:
        self.journal = journal
        self._addresses = addresses
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=ANSWER_SECONDS,
            limits=httpx.Limits(max_keepalive_connections=0),
            verify=False,
            trust_env=False,
        )

    def call(self, what: What, method: str, path: str, *, target: str = "proxy", picture: int = 0, **body: Any) -> Call:
        """Send a request and record the result. Any: httpx's options for the body."""
        sent = time.monotonic()
        try:
            answer = self._http.request(method, self._addresses[target] + path, **body)
        except httpx.TransportError as error:
            call = Call(what, path, target, sent, time.monotonic(), 0, error=repr(error), picture=picture)
        else:
            media = answer.headers.get("Content-Type", "")
            now = time.monotonic()
            call = Call(what, path, target, sent, now, answer.status_code, media, answer.content, picture=picture)
        self.journal.add(call)
        return call

    def close(self) -> None:
        self._http.close()


class PredictClient:
    """Predicts without pause at random addresses."""

    def __init__(self, caller: Caller, targets: Collection[str], task: str, seed: str) -> None:
        self._caller = caller
        self._targets = sorted(targets)
        self._task = task
        self._rng = random.Random(f"predict {seed}")

    def run(self) -> None:
        journal = self._caller.journal
        while not journal.is_over:
            if not self.predict(self._rng.randrange(PICTURES), self._rng.choice(self._targets)).is_done:
                journal.await_end(BACK_SECONDS)

    def predict(self, picture: int, target: str) -> Call:
        """Predict once, with every label and every prompt in the answer."""
        request = {"task": self._task, "images": [picture_text(picture)], "top_k": 1000, "explain": True}
        return self._caller.call("predict", "POST", "/predict", target=target, picture=picture, json=request)


class Owner:
    """Uploads new sources and extends permanent ones."""

    def __init__(self, caller: Caller, sources: KnownSources, task: str, pace: int, seed: str) -> None:
        self._caller = caller
        self._sources = sources
        self._task = task
        self._pace = pace  # calls between two operations
        self._rng = random.Random(f"owner {seed}")
        self._numbers = count()

    def run(self) -> None:
        while not self._caller.journal.is_over:
            permanent = sorted(source for source, known in self._sources.copy().items() if not known.is_temporary)
            if permanent and self._rng.random() < EXTENDED_SHARE:
                self.extend(self._rng.choice(permanent))
            elif len(self._sources) < MAX_SOURCES:
                self.upload(is_temporary=len(permanent) >= MAX_PERMANENT or self._rng.random() < TEMPORARY_SHARE)
            self._caller.journal.await_calls(self._pace)

    def upload(self, *, is_temporary: bool, is_whole: bool = False) -> Upload:
        """Upload a new source; with `is_whole` none of its samples will be forgotten."""
        archive = random_archive(self._rng, next(self._numbers))
        source = self._send("upload", "/sources", archive, name=archive.name, task=self._task)
        sent = Upload(archive, source is not None, source)
        self._caller.journal.uploads.append(sent)
        if source is not None:
            self._sources[source] = KnownSource(set() if is_whole else set(archive.digests), is_temporary)
        return sent

    def extend(self, source: str) -> None:
        archive = random_archive(self._rng, next(self._numbers))
        is_sure = self._send("extend", f"/sources/{source}/samples", archive) is not None
        self._caller.journal.uploads.append(Upload(archive, is_sure, source))
        if is_sure:
            self._sources[source].samples.update(archive.digests)

    def _send(self, what: What, path: str, archive: UploadArchive, **query: str) -> str | None:
        """Send the archive and return the id of the source if the response has it."""
        answer = self._caller.call(
            what,
            "POST",
            path,
            params={"shards": "2", **query},
            content=packed(archive.bodies),
            headers={"Content-Type": "application/zip"},
        )
        return str(json.loads(answer.body)["source_id"]) if answer.status == 202 else None


class Admin:
    """Grants new sources to the predicting user, and forgets sources and samples."""

    def __init__(self, caller: Caller, sources: KnownSources, user: str, pace: int, seed: str) -> None:
        self._caller = caller
        self._sources = sources
        self._user = user
        self._pace = pace
        self._rng = random.Random(f"admin {seed}")

    def run(self) -> None:
        while not self._caller.journal.is_over:
            sources = sorted(self._sources.copy().items())
            if ungranted := [source for source, known in sources if not known.is_granted]:
                self.grant(self._rng.choice(ungranted))
            elif (
                temporary := [source for source, known in sources if known.is_temporary]
            ) and self._rng.random() < 0.5:
                self.forget(self._rng.choice(temporary))
            elif full := [(source, sorted(known.samples)) for source, known in sources if known.samples]:
                source, samples = self._rng.choice(full)
                self.forget(source, self._rng.choice(samples))
            self._caller.journal.await_calls(self._pace)

    def grant(self, source: str) -> None:
        body = {"user": self._user, "source": source, "right": "use"}
        self._retry_until_done("grant", "POST", "/grants", json=body)
        self._sources[source].is_granted = True

    def forget(self, source: str, sample: str | None = None) -> None:
        if sample is None:
            del self._sources[source]
        else:
            self._sources[source].samples.discard(sample)
        sent = time.monotonic()
        path = f"/sources/{source}" if sample is None else f"/sources/{source}/samples/{sample}"
        done = self._retry_until_done("forget", "DELETE", path)
        erasure = str(json.loads(done.body)["id"])
        self._caller.journal.forgets.append(Forget(source, sample, sent, time.monotonic(), erasure))

    def _retry_until_done(self, what: What, method: str, path: str, **body: Any) -> Call:  # Any: httpx's
        end = time.monotonic() + TRY_SECONDS
        while True:
            answer = self._caller.call(what, method, path, **body)
            if answer.is_done:
                return answer
            assert answer.is_failed_cleanly, f"{method} {path}: {answer}"
            assert time.monotonic() < end, f"{method} {path} does not succeed: {answer}"
            self._caller.journal.await_calls(1)
