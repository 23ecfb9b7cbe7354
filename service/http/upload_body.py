"""Uploads from the wire into the registry: streamed into a scratch room, looked at there, taken in or refused."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from anyio import from_thread
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from registry.access.caller import Caller
from registry.ids import new_id
from registry.ingest.receive_body import receive_body
from registry.registry import Registry
from service.http.multipart import MULTIPART, PartStart, parse_boundary, parse_media_type, parse_multipart
from service.http.request_context import RequestContext

ARCHIVE = "archive"  # the field of a multipart upload that holds the pictures
ARCHIVE_TYPES = (
    "application/zip",
    "application/x-zip-compressed",
    "application/x-tar",
    "application/gzip",
    "application/x-gzip",
    "application/x-bzip2",
    "application/x-xz",
    "application/octet-stream",
)
MAX_FIELDS_BYTES = 64 * 1024

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class FormField:
    """One thing that is said of an upload, and where: in the query or in the body."""

    place: str
    name: str
    text: str


@dataclass(frozen=True)
class UploadStream:
    """What is said of an upload, and its archive, still on the wire."""

    said: tuple[FormField, ...]
    archive: AsyncIterator[bytes]

    def read_as(self, model: type[M]) -> M:
        """What is said, checked; each thing may be said once."""
        fields: dict[str, FormField] = {}
        for said in self.said:
            if said.name in fields:
                fault = {"loc": (said.place, said.name), "msg": "it is said more than once", "type": "repeated"}
                raise RequestValidationError([fault])
            fields[said.name] = said
        try:
            return model.model_validate({name: said.text for name, said in fields.items()})
        except ValidationError as error:
            raise RequestValidationError([_placed(one, fields) for one in error.errors(include_url=False)]) from error


async def open_upload(request: Request) -> UploadStream:
    """The delivery in a request: a raw archive with a query, or a multipart form whose last part is the archive."""
    content_type = request.headers.get("content-type", "")
    by_query = tuple(FormField("query", name, text) for name, text in request.query_params.multi_items())
    if parse_media_type(content_type) != MULTIPART:
        return UploadStream(by_query, request.stream())
    parts = parse_multipart(request.stream(), parse_boundary(content_type))
    by_fields = await _fields_before_archive(parts)
    return UploadStream((*by_query, *by_fields), _archive_of(parts))


async def receive_upload(
    context: RequestContext, delivery: UploadStream, keep: Callable[[Registry, Caller, Path], T]
) -> T:
    """Streams the archive into a room of the scratch folder, and keeps what is in it; the room is gone in the end.

    Busy, before any of the archive is read, where no place is left for an upload of this user.
    """
    state = context.state

    def work() -> T:
        # A room of its own: whoever clears up after this process finds the file, though no source knows it yet.
        with state.registry.scratch.job_folder(new_id()) as room:
            body = room / ARCHIVE
            receive_body(_pulled(delivery.archive), body, state.settings.max_upload_bytes)
            return keep(state.registry, context.caller_now(), body)

    with state.upload_limiter.acquire(context.user_id, "too many uploads are under way: send it again in a moment"):
        return await state.upload_pool.run(work)


def _pulled(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """The chunks for a thread that wants them one by one: none is fetched before the last is on the disk."""

    async def following() -> bytes | None:
        return await anext(chunks, None)

    while (chunk := from_thread.run(following)) is not None:
        yield chunk


async def _fields_before_archive(parts: AsyncIterator[PartStart | bytes]) -> list[FormField]:
    fields: list[tuple[str, bytearray]] = []
    current = bytearray()
    size_bytes = 0
    async for event in parts:
        if isinstance(event, PartStart):
            if event.name == ARCHIVE:
                return [FormField("body", name, value.decode("utf-8", "replace")) for name, value in fields]
            current = bytearray()
            fields.append((event.name, current))
        else:
            size_bytes += len(event)
            if size_bytes > MAX_FIELDS_BYTES:
                break
            current += event
    raise _refused(f"a field {ARCHIVE!r} with the pictures is wanted, after all the others, which are short")


async def _archive_of(parts: AsyncIterator[PartStart | bytes]) -> AsyncIterator[bytes]:
    async for event in parts:
        if isinstance(event, PartStart):
            raise _refused(f"the field {ARCHIVE!r} must be the last: {event.name[:100]!r} comes after it")
        yield event


def _placed(fault: Any, fields: Mapping[str, FormField]) -> dict[str, Any]:  # Any: a fault as pydantic tells it
    """The fault, told where it was said; what was not said at all is missing in the query."""
    said = fields.get(str(fault["loc"][0])) if fault["loc"] else None
    return {**fault, "loc": ("query" if said is None else said.place, *fault["loc"])}


def _refused(reason: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", ARCHIVE), "msg": reason, "type": "multipart"}])
