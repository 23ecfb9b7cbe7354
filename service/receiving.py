"""Uploads from the wire into the registry: streamed into a scratch room, looked at there, taken in or refused."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from anyio import from_thread
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from registry.ids import new_id
from registry.registry import Registry
from registry.uploading.receive import receive
from service.errors import MediaTypeRefused
from service.parts import MULTIPART, Beginning, boundary_of, media_type_of, parts_of
from service.service import Service

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
class Delivery:
    """What is said of an upload, by the query or by fields, and its archive, still on the wire."""

    fields: dict[str, str]
    archive: AsyncIterator[bytes]

    def read_as(self, model: type[M]) -> M:
        """The fields, checked."""
        try:
            return model.model_validate(self.fields)
        except ValidationError as error:
            found = [{**one, "loc": ("query", *one["loc"])} for one in error.errors(include_url=False)]
            raise RequestValidationError(found) from error


async def open_delivery(request: Request) -> Delivery:
    """The delivery in a request: a raw archive with a query, or a multipart form whose last part is the archive."""
    content_type = request.headers.get("content-type", "")
    fields = dict(request.query_params)
    kind = media_type_of(content_type)
    if kind in ARCHIVE_TYPES:
        return Delivery(fields, request.stream())
    if kind != MULTIPART:
        raise MediaTypeRefused(content_type, f"{MULTIPART}, or the archive itself as {ARCHIVE_TYPES[0]} and the like")
    parts = parts_of(request.stream(), boundary_of(content_type))
    fields |= await _fields_before_archive(parts)
    return Delivery(fields, _archive_of(parts))


async def take_in(service: Service, delivery: Delivery, keep: Callable[[Registry, Path], T]) -> T:
    """Streams the archive into a room of the scratch folder, and keeps what is in it; the room is gone in the end."""

    def work() -> T:
        # A room of its own: whoever clears up after this process finds the file, though no source knows it yet.
        with service.registry.scratch.room(new_id()) as room:
            body = room / ARCHIVE
            receive(_pulled(delivery.archive), body, service.settings.max_upload_bytes)
            return keep(service.registry, body)

    return await service.uploads.through_now(work, "too many uploads are under way: send it again in a moment")


def _pulled(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """The chunks for a thread that wants them one by one: none is fetched before the last is on the disk."""

    async def following() -> bytes | None:
        return await anext(chunks, None)

    while (chunk := from_thread.run(following)) is not None:
        yield chunk


async def _fields_before_archive(parts: AsyncIterator[Beginning | bytes]) -> dict[str, str]:
    fields: dict[str, bytearray] = {}
    current = bytearray()
    size_bytes = 0
    async for event in parts:
        if isinstance(event, Beginning):
            if event.name == ARCHIVE:
                return {name: value.decode("utf-8", "replace") for name, value in fields.items()}
            current = fields[event.name] = bytearray()
        else:
            size_bytes += len(event)
            if size_bytes > MAX_FIELDS_BYTES:
                break
            current += event
    raise _refused(f"a field {ARCHIVE!r} with the pictures is wanted, after all the others, which are short")


async def _archive_of(parts: AsyncIterator[Beginning | bytes]) -> AsyncIterator[bytes]:
    async for event in parts:
        if isinstance(event, Beginning):
            raise _refused(f"the field {ARCHIVE!r} must be the last: {event.name[:100]!r} comes after it")
        yield event


def _refused(reason: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", ARCHIVE), "msg": reason, "type": "multipart"}])
