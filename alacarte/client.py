"""The client of the HTTP service: `Client(url, token).predict("cat.jpg")`. It needs httpx and pydantic only."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from string import hexdigits
from types import TracebackType
from typing import Self, TypedDict, Unpack
from uuid import UUID

from alacarte._client.admin import AdminCalls, NameOrId, normalize_name, require_one
from alacarte._client.errors import (
    ClientError,
    InvalidFolder,
    InvalidResponse,
    ServiceProblem,
    ServiceUnreachable,
    WaitTimeout,
)
from alacarte._client.http import HttpConnection, form_fields, json_body
from alacarte._client.polling import incomplete_reason, poll, poll_training
from alacarte._client.tar_stream import FilePath, OnProgress, open_archive
from alacarte.api.base import PageResponse
from alacarte.api.erasures import ErasureResponse, ReceiptVerificationResponse
from alacarte.api.literals import Composition, Weighting
from alacarte.api.predictions import Prediction, PredictResponse
from alacarte.api.sources import (
    PromptResponse,
    SampleResponse,
    SourceDetailResponse,
    TrainingControlResponse,
    UploadResponse,
)

__all__ = [
    "Client",
    "ClientError",
    "InvalidFolder",
    "InvalidResponse",
    "Prediction",
    "ServiceProblem",
    "ServiceUnreachable",
    "WaitTimeout",
]

UPLOAD_TIMEOUT_S = 3600.0  # the service validates every picture before it answers
DIGEST_LENGTH = 64

Picture = FilePath | bytes  # a file, or its content


class PredictKeywords(TypedDict, total=False):
    """The options of a prediction; those that are None or left out have the defaults of the service."""

    sources: Iterable[NameOrId] | None
    task: NameOrId | None
    release: NameOrId | None
    composition: Composition | None
    weighting: Weighting | None
    top_k: int | None
    explain: bool


class Client(AdminCalls):
    """A service as one token may use it; sources, users and tasks may be given by name or id."""

    def __init__(self, url: str, token: str | None, timeout: float = 60.0) -> None:
        super().__init__(HttpConnection(url, token, timeout))

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
        """The URL of the service."""
        return self._http.url

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def is_ready(self) -> bool:
        """Tell whether the service is reachable and ready to predict."""
        try:
            self._http.request("GET", "readyz")
        except ClientError:
            return False
        return True

    def predict(self, picture: Picture, **options: Unpack[PredictKeywords]) -> Prediction:
        """Classify one picture with the sources that you may use, or with those of them that are given."""
        [prediction] = self.predict_many([picture], **options)
        return prediction

    def predict_many(self, pictures: Sequence[Picture], **options: Unpack[PredictKeywords]) -> list[Prediction]:
        """Classify pictures, all with the same sources; the predictions are in the order of the pictures."""
        fields = form_fields({**options, "sources": _source_list(options.get("sources"))})
        # The service need not know the local names of the files.
        files = [("image", (f"picture-{number}", _read_file(picture))) for number, picture in enumerate(pictures)]
        response = self._http.fetch(PredictResponse, "POST", "predict", data=fields, files=files)
        if len(response.results) != len(pictures):
            raise InvalidResponse(f"{self.url} sent {len(response.results)} results for {len(pictures)} pictures")
        return response.predictions()

    def get_source(self, source: NameOrId) -> SourceDetailResponse:
        """Return what a source holds and the training state of its shards."""
        return self._http.fetch(SourceDetailResponse, "GET", "sources", self._source_id(source))

    def create_source(self, name: str, *, task: NameOrId, owner: NameOrId | None = None) -> SourceDetailResponse:
        """Create a source without pictures, for prompts that are trained elsewhere."""
        body = {"name": name, "task": task, "owner": self._optional_user_id(owner)}
        created = self._http.fetch(UploadResponse, "POST", "sources", json=json_body(body))
        return self.get_source(created.source_id)

    def upload_source(
        self,
        name: str,
        path: FilePath,
        *,
        task: NameOrId,
        shards: int = 1,
        owner: NameOrId | None = None,
        within: str | None = None,
        skip_unreadable: bool = False,
        on_progress: OnProgress | None = None,
    ) -> UploadResponse:
        """Create a source from the pictures of an archive or folder, which is streamed; all or nothing."""
        query = {"name": name, "task": task, "owner": self._optional_user_id(owner)}
        options = _upload_options(shards, within, skip_unreadable)
        return self._upload(("sources",), path, {**query, **options}, on_progress)

    def add_samples(
        self,
        source: NameOrId,
        path: FilePath,
        *,
        shards: int = 1,
        readmit: bool = False,
        within: str | None = None,
        skip_unreadable: bool = False,
        on_progress: OnProgress | None = None,
    ) -> UploadResponse:
        """Add pictures to a source, in new shards; forgotten ones are taken again only with `readmit`."""
        query = {"readmit": readmit, **_upload_options(shards, within, skip_unreadable)}
        return self._upload(("sources", self._source_id(source), "samples"), path, query, on_progress)

    def push_prompt(self, source: NameOrId, path: FilePath) -> PromptResponse:
        """Send a prompt that was trained here as a new shard of the source; no picture is sent."""
        return self._http.fetch(
            PromptResponse,
            "PUT",
            "sources",
            self._source_id(source),
            "prompt",
            content=_read_file(path),
            headers={"Content-Type": "application/octet-stream"},
        )

    def list_samples(self, source: NameOrId, label: str | None = None) -> list[SampleResponse]:
        """Return the pictures of a source by their digests; this needs the right to manage or forget it."""
        path = ("sources", self._source_id(source), "samples")
        return self._http.fetch_all(PageResponse[SampleResponse], *path, query={"label": label})

    def find_sample(self, source: NameOrId, sample: str) -> str:
        """Return the digest of the picture with this file name or digest; the name must be unique in the source."""
        if len(sample) == DIGEST_LENGTH and not set(sample) - set(hexdigits):
            return sample.lower()
        name = normalize_name(sample)
        digests = [one.digest for one in self.list_samples(source) if normalize_name(one.name) == name]
        return require_one("sample", sample, digests, f"several samples came in a file {sample!r}: give its digest")

    def cancel_training(self, source: NameOrId) -> int:
        """Stop the training of a source until it is resumed; return the number of shards that this stopped."""
        return self._control_training(source, "cancel")

    def resume_training(self, source: NameOrId) -> int:
        """Resume training that was stopped or is backing off; return the number of shards that this resumed."""
        return self._control_training(source, "resume")

    def wait_until_trained(
        self,
        source: NameOrId,
        timeout: float | None = None,
        on_progress: Callable[[SourceDetailResponse], None] | None = None,
    ) -> SourceDetailResponse:
        """Poll until all shards of the source are served; WaitTimeout says what is missing."""
        source_id = self._source_id(source)
        return poll_training(lambda: self.get_source(source_id), timeout, on_progress)

    def forget_source(self, source: NameOrId) -> ErasureResponse:
        """Forget a source: it is not served from now on, and the erasure removes the rest."""
        return self._http.fetch(ErasureResponse, "DELETE", "sources", self._source_id(source))

    def forget_shard(self, source: NameOrId, shard_id: NameOrId) -> ErasureResponse:
        """Forget one shard of a source."""
        return self._http.fetch(ErasureResponse, "DELETE", "sources", self._source_id(source), "shards", shard_id)

    def forget_sample(self, source: NameOrId, digest: str) -> ErasureResponse:
        """Forget one picture by its digest; its shard is trained again without it."""
        return self._http.fetch(ErasureResponse, "DELETE", "sources", self._source_id(source), "samples", digest)

    def list_erasures(self) -> list[ErasureResponse]:
        """Return the erasures that you requested, or all for admins, oldest first."""
        return self._http.fetch_all(PageResponse[ErasureResponse], "erasures")

    def get_erasure(self, erasure_id: NameOrId) -> ErasureResponse:
        """Return the steps of an erasure, and its receipt once it is complete."""
        return self._http.fetch(ErasureResponse, "GET", "erasures", erasure_id)

    def wait_for_erasure(self, erasure_id: NameOrId, timeout: float | None = None) -> ErasureResponse:
        """Poll until the erasure has its receipt; WaitTimeout says which steps are not done."""
        return poll(lambda: self.get_erasure(erasure_id), incomplete_reason, timeout)

    def verify_receipt(self, erasure_id: NameOrId) -> ReceiptVerificationResponse:
        """Check that the receipt of an erasure is genuine and that what it states still holds."""
        return self._http.fetch(ReceiptVerificationResponse, "GET", "erasures", erasure_id, "verification")

    def _control_training(self, source: NameOrId, action: str) -> int:
        path = ("sources", self._source_id(source), action)
        return self._http.fetch(TrainingControlResponse, "POST", *path).shards

    def _upload(
        self, path: Sequence[str | UUID], file: FilePath, query: dict[str, object], on_progress: OnProgress | None
    ) -> UploadResponse:
        with open_archive(file) as archive:
            return self._http.fetch(
                UploadResponse,
                "POST",
                *path,
                query=query,
                content=archive.report(on_progress),
                headers={"Content-Type": "application/octet-stream", "Content-Length": str(archive.size_bytes)},
                read_timeout_s=UPLOAD_TIMEOUT_S,
            )


def _read_file(picture: Picture) -> bytes:
    return picture if isinstance(picture, bytes) else Path(picture).read_bytes()


def _source_list(sources: Iterable[NameOrId] | None) -> list[NameOrId] | None:
    if isinstance(sources, str):
        raise TypeError("sources must be a list of names, not one string: put it in a list")
    names = None if sources is None else list(sources)
    if names == []:  # a form without the field would mean all sources
        raise ValueError("the list of sources is empty: leave it out to use all sources that you may use")
    return names


def _upload_options(shards: int, within: str | None, skip_unreadable: bool) -> dict[str, object]:
    return {"shards": shards, "within": within, "unreadable": "skip" if skip_unreadable else "refuse"}
