"""The load of a crash run: somebody predicts, an owner uploads, an admin grants and forgets."""

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

MAX_SOURCES = 8  # at once: else each answer takes longer than the last
BACK_SECONDS = 0.2  # after which somebody who could not be answered asks again
TRY_SECONDS = 600.0  # until whoever tries again and again gives up
EXTENDED_SHARE = 0.3  # of the uploads
TEMPORARY_SHARE = 0.5  # of the sources
MAX_PERMANENT = 3  # beyond, all are temporary


class Asker:
    """Asks without pause, now here and now there."""

    def __init__(self, caller: Caller, places: Collection[str], task: str, seed: str) -> None:
        self._caller = caller
        self._places = sorted(places)
        self._task = task
        self._dice = random.Random(f"asker {seed}")

    def run(self) -> None:
        """Until it is over."""
        journal = self._caller.journal
        while not journal.is_over:
            if not self.ask(self._dice.randrange(PICTURES), self._dice.choice(self._places)).is_done:
                journal.await_end(BACK_SECONDS)

    def ask(self, picture: int, place: str) -> Call:
        """One question, with every label and every prompt told."""
        asked = {"task": self._task, "images": [picture_text(picture)], "top_k": 1000, "explain": True}
        return self._caller.call("predict", "POST", "/predict", place=place, picture=picture, json=asked)


class Owner:
    """Uploads new sources, and adds to those that are to stay."""

    def __init__(self, caller: Caller, known_sources: KnownSources, task: str, pace: int, seed: str) -> None:
        self._caller = caller
        self._known_sources = known_sources
        self._task = task
        self._pace = pace  # answers to anybody between two deeds
        self._dice = random.Random(f"owner {seed}")
        self._numbers = count()

    def run(self) -> None:
        """Until it is over."""
        while not self._caller.journal.is_over:
            if (permanent := self._known_sources.permanent) and self._dice.random() < EXTENDED_SHARE:
                self.extend(self._dice.choice(permanent))
            elif len(self._known_sources.live) < MAX_SOURCES:
                self.upload(is_temporary=len(permanent) >= MAX_PERMANENT or self._dice.random() < TEMPORARY_SHARE)
            self._caller.journal.await_calls(self._pace)

    def upload(self, *, is_temporary: bool, is_whole: bool = False) -> Upload:
        """A new source, perhaps; one that is to stay whole loses none of these pictures."""
        archive = random_archive(self._dice, next(self._numbers))
        source = self._send("upload", "/sources", archive, name=archive.name, task=self._task)
        sent = Upload(archive, source is not None, source)
        self._caller.journal.add(sent)
        if source is not None:
            self._known_sources.put(source, () if is_whole else archive.digests, is_temporary=is_temporary)
        return sent

    def extend(self, source: str) -> None:
        """More pictures for a source, perhaps."""
        archive = random_archive(self._dice, next(self._numbers))
        is_sure = self._send("extend", f"/sources/{source}/samples", archive) is not None
        self._caller.journal.add(Upload(archive, is_sure, source))
        if is_sure:
            self._known_sources.add(source, archive.digests)

    def _send(self, what: What, path: str, archive: UploadArchive, **query: str) -> str | None:
        """The id of the source, if it was told."""
        answer = self._caller.call(
            what,
            "POST",
            path,
            params={"shards": "2", **query},
            content=archive.packed(),
            headers={"Content-Type": "application/zip"},
        )
        return str(json.loads(answer.body)["source"]) if answer.status == 202 else None


class Admin:
    """Grants what came to the one who predicts, and has sources and pictures forgotten."""

    def __init__(self, caller: Caller, known_sources: KnownSources, user: str, pace: int, seed: str) -> None:
        self._caller = caller
        self._known_sources = known_sources
        self._user = user
        self._pace = pace
        self._dice = random.Random(f"admin {seed}")

    def run(self) -> None:
        """Until it is over."""
        while not self._caller.journal.is_over:
            live = self._known_sources.live
            full = [source for source, samples in live.items() if samples]
            if strange := sorted(live.keys() - set(self._known_sources.granted)):
                self.grant(self._dice.choice(strange))
            elif (temporary := self._known_sources.temporary) and self._dice.random() < 0.5:
                self.forget(self._dice.choice(temporary))
            elif full:
                source = self._dice.choice(full)
                self.forget(source, self._dice.choice(sorted(live[source])))
            self._caller.journal.await_calls(self._pace)

    def grant(self, source: str) -> None:
        """The one who predicts may use the source."""
        said = {"user": self._user, "source": source, "right": "use"}
        self._retry_until_done("grant", "POST", "/grants", json=said)
        self._known_sources.grant(source)

    def forget(self, source: str, sample: str | None = None) -> None:
        """The source, or one picture of it, is forgotten."""
        self._known_sources.take(source, sample)
        sent = time.monotonic()
        path = f"/sources/{source}" if sample is None else f"/sources/{source}/samples/{sample}"
        done = self._retry_until_done("forget", "DELETE", path)
        erasure = str(json.loads(done.body)["id"])
        self._caller.journal.add(Forget(source, sample, sent, time.monotonic(), erasure))

    def _retry_until_done(self, what: What, method: str, path: str, **body: Any) -> Call:  # Any: httpx's
        """The answer that it is done, however often it must be asked."""
        end = time.monotonic() + TRY_SECONDS
        while True:
            answer = self._caller.call(what, method, path, **body)
            if answer.is_done:
                return answer
            assert answer.is_failed_cleanly, f"{method} {path}: {answer}"
            assert time.monotonic() < end, f"{method} {path} is never done: {answer}"
            self._caller.journal.await_calls(1)
