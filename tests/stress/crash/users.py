"""The load of a crash run: clients predict, an owner uploads, an admin grants and forgets."""

import json
import random
import time
from collections.abc import Collection
from itertools import count
from typing import Any

from tests.stress.crash.journal import Call, Forget, Upload, What
from tests.stress.crash.known_sources import KnownSources
from tests.stress.crash.requests import Caller
from tests.stress.crash.uploads import UploadArchive, random_archive
from tests.stress.race.fixtures import PICTURES, picture_text

MAX_SOURCES = 8  # at a time; more make each prediction slower
BACK_SECONDS = 0.2  # between a failed prediction and the next
TRY_SECONDS = 600.0  # before retries are given up
EXTENDED_SHARE = 0.3  # of the uploads
TEMPORARY_SHARE = 0.5  # of the sources
MAX_PERMANENT = 3  # beyond, all are temporary


class PredictClient:
    """Predicts without pause at random addresses."""

    def __init__(self, caller: Caller, targets: Collection[str], task: str, seed: str) -> None:
        self._caller = caller
        self._targets = sorted(targets)
        self._task = task
        self._rng = random.Random(f"asker {seed}")

    def run(self) -> None:
        """Run until the load is over."""
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

    def __init__(self, caller: Caller, known_sources: KnownSources, task: str, pace: int, seed: str) -> None:
        self._caller = caller
        self._known_sources = known_sources
        self._task = task
        self._pace = pace  # calls between two operations
        self._rng = random.Random(f"owner {seed}")
        self._numbers = count()

    def run(self) -> None:
        """Run until the load is over."""
        while not self._caller.journal.is_over:
            if (permanent := self._known_sources.permanent) and self._rng.random() < EXTENDED_SHARE:
                self.extend(self._rng.choice(permanent))
            elif len(self._known_sources.live) < MAX_SOURCES:
                self.upload(is_temporary=len(permanent) >= MAX_PERMANENT or self._rng.random() < TEMPORARY_SHARE)
            self._caller.journal.await_calls(self._pace)

    def upload(self, *, is_temporary: bool, is_whole: bool = False) -> Upload:
        """Upload a new source; with `is_whole` none of its samples will be forgotten."""
        archive = random_archive(self._rng, next(self._numbers))
        source = self._send("upload", "/sources", archive, name=archive.name, task=self._task)
        sent = Upload(archive, source is not None, source)
        self._caller.journal.add(sent)
        if source is not None:
            self._known_sources.put(source, () if is_whole else archive.digests, is_temporary=is_temporary)
        return sent

    def extend(self, source: str) -> None:
        """Upload more samples to a source."""
        archive = random_archive(self._rng, next(self._numbers))
        is_sure = self._send("extend", f"/sources/{source}/samples", archive) is not None
        self._caller.journal.add(Upload(archive, is_sure, source))
        if is_sure:
            self._known_sources.add(source, archive.digests)

    def _send(self, what: What, path: str, archive: UploadArchive, **query: str) -> str | None:
        """Send the archive and return the id of the source if the response has it."""
        answer = self._caller.call(
            what,
            "POST",
            path,
            params={"shards": "2", **query},
            content=archive.packed(),
            headers={"Content-Type": "application/zip"},
        )
        return str(json.loads(answer.body)["source_id"]) if answer.status == 202 else None


class Admin:
    """Grants new sources to the predicting user, and forgets sources and samples."""

    def __init__(self, caller: Caller, known_sources: KnownSources, user: str, pace: int, seed: str) -> None:
        self._caller = caller
        self._known_sources = known_sources
        self._user = user
        self._pace = pace
        self._rng = random.Random(f"admin {seed}")

    def run(self) -> None:
        """Run until the load is over."""
        while not self._caller.journal.is_over:
            live = self._known_sources.live
            full = [source for source, samples in live.items() if samples]
            if ungranted := sorted(live.keys() - set(self._known_sources.granted)):
                self.grant(self._rng.choice(ungranted))
            elif (temporary := self._known_sources.temporary) and self._rng.random() < 0.5:
                self.forget(self._rng.choice(temporary))
            elif full:
                source = self._rng.choice(full)
                self.forget(source, self._rng.choice(sorted(live[source])))
            self._caller.journal.await_calls(self._pace)

    def grant(self, source: str) -> None:
        """Grant the source to the predicting user."""
        body = {"user": self._user, "source": source, "right": "use"}
        self._retry_until_done("grant", "POST", "/grants", json=body)
        self._known_sources.grant(source)

    def forget(self, source: str, sample: str | None = None) -> None:
        """Forget the source, or one sample of it."""
        self._known_sources.take(source, sample)
        sent = time.monotonic()
        path = f"/sources/{source}" if sample is None else f"/sources/{source}/samples/{sample}"
        done = self._retry_until_done("forget", "DELETE", path)
        erasure = str(json.loads(done.body)["id"])
        self._caller.journal.add(Forget(source, sample, sent, time.monotonic(), erasure))

    def _retry_until_done(self, what: What, method: str, path: str, **body: Any) -> Call:  # Any: httpx's
        """Repeat the call until it succeeds."""
        end = time.monotonic() + TRY_SECONDS
        while True:
            answer = self._caller.call(what, method, path, **body)
            if answer.is_done:
                return answer
            assert answer.is_failed_cleanly, f"{method} {path}: {answer}"
            assert time.monotonic() < end, f"{method} {path} does not succeed: {answer}"
            self._caller.journal.await_calls(1)
