"""A thin client of the HTTP service: `Client(url, token).predict("cat.jpg")`; it needs httpx and nothing heavy."""

import os
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from alacarte._client.admin import Administration
from alacarte._client.errors import (
    AnswerUnreadable,
    ClientError,
    FolderUnfit,
    ServiceProblem,
    ServiceUnreachable,
    WaitedInVain,
)
from alacarte._client.http import Wire, document_of, fields_of
from alacarte._client.ids import is_digest, kept_form
from alacarte._client.json_fields import read
from alacarte._client.models import Admission, Erasure, Prediction, Prompt, Sample, SourceState, Training, Verdict
from alacarte._client.polling import Forgetting, obstacle_to, wait_for
from alacarte._client.request_bodies import Picture, Sent, file_bytes, opened_archive

__all__ = [
    "AnswerUnreadable",
    "Client",
    "ClientError",
    "FolderUnfit",
    "Forgetting",
    "Prediction",
    "ServiceProblem",
    "ServiceUnreachable",
    "WaitedInVain",
]

UPLOAD_SECONDS = 3600.0  # until an upload is answered: every picture is looked at before

Path = str | os.PathLike[str]


class Client(Administration):
    """The service at a URL as one token may use it; sources and users may be named by their names or ids."""

    def __init__(self, url: str, token: str | None, timeout: float = 60.0) -> None:
        super().__init__(Wire(url, token, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"  # never the token

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._wire.url

    def close(self) -> None:
        """Ends the connections."""
        self._wire.close()

    def is_ready(self) -> bool:
        """Whether the service answers, and can answer predictions."""
        try:
            self._wire.ask("GET", "readyz")
        except ClientError:
            return False
        return True

    def predict(
        self,
        picture: Picture,
        *,
        sources: Iterable[str] | None = None,
        task: str | None = None,
        release: str | None = None,
        composition: str | None = None,
        weighting: str | None = None,
        top_k: int | None = None,
        explain: bool = False,
    ) -> Prediction:
        """The labels of one picture, by all sources that you may use, or by those of them that are named."""
        said = {"task": task, "release": release, "composition": composition, "weighting": weighting}
        [answer] = self.predict_many([picture], sources=sources, top_k=top_k, explain=explain, **said)
        return answer

    def predict_many(
        self,
        pictures: Sequence[Picture],
        *,
        sources: Iterable[str] | None = None,
        task: str | None = None,
        release: str | None = None,
        composition: str | None = None,
        weighting: str | None = None,
        top_k: int | None = None,
        explain: bool = False,
    ) -> list[Prediction]:
        """The labels of each picture, in their order, all by the same sources."""
        way = {"task": task, "release": release, "composition": composition, "weighting": weighting}
        said = {**way, "sources": _names(sources), "top_k": top_k, "explain": explain}
        # What the files are called here is nobody's business there.
        files = [("image", (f"picture-{number}", file_bytes(one))) for number, one in enumerate(pictures)]
        told = self._wire.ask("POST", "predict", data=fields_of(said), files=files)
        results = told.pop("results", None)
        if not isinstance(results, list) or len(results) != len(pictures):
            raise AnswerUnreadable("the answer has another number of results than pictures were sent")
        return [read(Prediction, {**told, **result}) for result in results]

    def source(self, source: str) -> SourceState:
        """What a source holds, and how far its training has come."""
        return read(SourceState, self._wire.ask("GET", "sources", self._source_id(source)))

    def samples(self, source: str, label: str | None = None) -> list[Sample]:
        """The pictures of a source by their digests, for those who manage it or may have some of it forgotten."""
        found = self._wire.pages("sources", self._source_id(source), "samples", query={"label": label})
        return [read(Sample, one) for one in found]

    def find_sample(self, source: str, sample: str) -> str:
        """The digest of the only picture of the source that came in a file of this name; a digest is taken as it is."""
        if is_digest(sample):
            return sample.lower()
        found = [one.digest for one in self.samples(source) if kept_form(one.name) == kept_form(sample)]
        if not found:
            raise ServiceProblem(404, "Not found", f"no sample {sample!r} that you may see", kind="not-found")
        if len(found) > 1:
            detail = f"several samples came in a file {sample!r}: name one by its digest"
            raise ServiceProblem(409, "Conflict", detail, kind="conflict")
        return found[0]

    def cancel(self, source: str) -> int:
        """Stops the training of a source until it is resumed; tells of how many shards."""
        return read(Training, self._wire.ask("POST", "sources", self._source_id(source), "cancel")).shards

    def resume(self, source: str) -> int:
        """Lets training go on that was stopped, or that waits after failures; tells of how many shards."""
        return read(Training, self._wire.ask("POST", "sources", self._source_id(source), "resume")).shards

    def create_source(self, name: str, *, task: str, owner: str | None = None) -> SourceState:
        """A source without pictures, as for prompts that are trained elsewhere."""
        said = {"name": name, "task": task, "owner": None if owner is None else self._user_id(owner)}
        made = read(Admission, self._wire.ask("POST", "sources", json=document_of(said)))
        return self.source(made.source)

    def upload(
        self,
        name: str,
        path: Path,
        *,
        task: str,
        shards: int = 1,
        owner: str | None = None,
        within: str | None = None,
        skip_unreadable: bool = False,
        progress: Sent | None = None,
    ) -> Admission:
        """A new source of the pictures in an archive or a folder, sent piece by piece; all or nothing."""
        said = {"name": name, "task": task, "owner": None if owner is None else self._user_id(owner)}
        return self._send(("sources",), path, {**said, **_how(shards, within, skip_unreadable)}, progress)

    def extend(
        self,
        source: str,
        path: Path,
        *,
        shards: int = 1,
        readmit: bool = False,
        within: str | None = None,
        skip_unreadable: bool = False,
        progress: Sent | None = None,
    ) -> Admission:
        """More pictures for a source, in shards of their own; forgotten ones come back only with `readmit`."""
        said = {"readmit": readmit, **_how(shards, within, skip_unreadable)}
        return self._send(("sources", self._source_id(source), "samples"), path, said, progress)

    def push_prompt(self, source: str, path: Path) -> Prompt:
        """Sends a prompt that was trained here, as a new shard of the source; its pictures stay where they are."""
        address = ("sources", self._source_id(source), "prompt")
        headers = {"Content-Type": "application/octet-stream"}
        return read(Prompt, self._wire.ask("PUT", *address, content=file_bytes(path), headers=headers))

    def wait_until_trained(
        self, source: str, timeout: float | None = None, progress: Callable[[SourceState], None] | None = None
    ) -> SourceState:
        """The source once all its shards answer; WaitedInVain says what is in the way."""
        source = self._source_id(source)

        def look() -> SourceState:
            state = self.source(source)
            if progress is not None:
                progress(state)
            return state

        return wait_for(look, obstacle_to, timeout)

    def forget(self, source: str, *, sample: str | None = None, shard: str | None = None) -> Forgetting:
        """Forgets a source, one of its shards, or one picture by its digest: none of it answers from now on."""
        if sample is not None and shard is not None:
            raise ValueError("name a sample or a shard, not both")
        part = ("samples", sample) if sample is not None else ("shards", shard) if shard is not None else ()
        address = ("sources", self._source_id(source), *(one for one in part if one is not None))
        begun = read(Erasure, self._wire.ask("DELETE", *address))
        return Forgetting(begun, lambda: self.erasure(begun.id))

    def erasures(self) -> list[Erasure]:
        """What you asked to be forgotten, or all for admins."""
        return [read(Erasure, one) for one in self._wire.pages("erasures")]

    def erasure(self, erasure_id: str) -> Erasure:
        """How an erasure stands, and its receipt once all is done."""
        return read(Erasure, self._wire.ask("GET", "erasures", erasure_id))

    def verify(self, erasure_id: str) -> Verdict:
        """Whether the receipt of an erasure is genuine, and what it says is still so."""
        return read(Verdict, self._wire.ask("GET", "erasures", erasure_id, "verdict"))

    def _send(self, address: Sequence[str], path: Path, said: dict[str, object], progress: Sent | None) -> Admission:
        with opened_archive(path) as archive:
            told = self._wire.ask(
                "POST",
                *address,
                query=said,
                content=archive.reported(progress),
                headers={"Content-Type": "application/octet-stream", "Content-Length": str(archive.size_bytes)},
                answer_within_s=UPLOAD_SECONDS,
            )
        return read(Admission, told)


def _names(sources: Iterable[str] | None) -> list[str] | None:
    if isinstance(sources, str):
        raise TypeError("sources are a list of names, not one text: put it in a list")
    names = None if sources is None else list(sources)
    if names == []:  # a form cannot say so: it would be all of them
        raise ValueError("no source is named, so nobody could answer: leave sources out to ask all that you may use")
    return names


def _how(shards: int, within: str | None, skip_unreadable: bool) -> dict[str, object]:
    return {"shards": shards, "within": within, "unreadable": "skip" if skip_unreadable else "refuse"}
