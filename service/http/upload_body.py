"""Uploads from the request body into the registry: streamed to scratch, validated there, ingested or refused."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from registry.access.caller import Caller
from registry.ids import new_id
from registry.ingest.receive_body import receive_body
from registry.registry import Registry
from service.http.media_types import MULTIPART, OCTET_STREAM
from service.http.multipart import PartStart, parse_boundary, parse_multipart
from service.http.request_context import RequestContext

ARCHIVE = "archive"  # the multipart field with the pictures
ARCHIVE_TYPES = (
    "application/zip",
    "application/x-zip-compressed",
    "application/x-tar",
    "application/gzip",
    "application/x-gzip",
    "application/x-bzip2",
    "application/x-xz",
    OCTET_STREAM,
)
MAX_FIELDS_BYTES = 64 * 1024

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class UploadParameter:
    """A parameter of an upload, as it was sent."""

    location: str  # "query" or "body", as in the `loc` of a validation error
    name: str
    text: str


@dataclass(frozen=True)
class UploadStream:
    """The parameters of an upload, and its archive, which is not received yet."""

    parameters: tuple[UploadParameter, ...]
    archive: AsyncIterator[bytes]

    def validate_parameters(self, model: type[M]) -> M:
        """Return the parameters as the model; RequestValidationError also for repeated ones."""
        given: dict[str, UploadParameter] = {}
        for parameter in self.parameters:
            if parameter.name in given:
                loc = (parameter.location, parameter.name)
                raise RequestValidationError([{"loc": loc, "msg": "given more than once", "type": "repeated"}])
            given[parameter.name] = parameter
        try:
            return model.model_validate({name: parameter.text for name, parameter in given.items()})
        except ValidationError as error:
            raise RequestValidationError([_locate(one, given) for one in error.errors(include_url=False)]) from error


async def open_upload(request: Request, context: RequestContext) -> UploadStream:
    """Read the parameters from the query and, in a multipart form, from the fields before `archive`."""
    in_query = tuple(UploadParameter("query", name, text) for name, text in request.query_params.multi_items())
    if context.media_type != MULTIPART:
        return UploadStream(in_query, request.stream())
    parts = parse_multipart(request.stream(), parse_boundary(request.headers["content-type"]))
    in_form = await _read_fields_before_archive(parts)
    return UploadStream((*in_query, *in_form), _read_archive(parts))


async def receive_upload(
    context: RequestContext, upload: UploadStream, ingest: Callable[[Registry, Caller, Path], T]
) -> T:
    """Stream the archive into a scratch folder, ingest it, and remove the folder.

    Busy, before any of the archive is read, if too many uploads are in progress.
    """
    state, loop = context.state, asyncio.get_running_loop()

    def work() -> T:
        # A scratch folder of its own, so that cleaning up after a killed process finds the file.
        with state.registry.scratch.job_folder(new_id()) as folder:
            body = folder / ARCHIVE
            receive_body(_iterate_in_thread(upload.archive, loop), body, state.settings.max_upload_bytes)
            return ingest(state.registry, context.authenticate_now(), body)

    return await state.upload_pool.run(context.user_id, work)


def _iterate_in_thread(chunks: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """Yield the chunks to a thread, each fetched only after the one before was consumed."""

    async def fetch() -> bytes | None:
        return await anext(chunks, None)

    while (chunk := asyncio.run_coroutine_threadsafe(fetch(), loop).result()) is not None:
        yield chunk


async def _read_fields_before_archive(parts: AsyncIterator[PartStart | bytes]) -> list[UploadParameter]:
    fields: list[tuple[str, bytearray]] = []
    current = bytearray()
    size_bytes = 0
    async for event in parts:
        if isinstance(event, PartStart):
            if event.name == ARCHIVE:
                return [UploadParameter("body", name, value.decode("utf-8", "replace")) for name, value in fields]
            current = bytearray()
            fields.append((event.name, current))
        else:
            size_bytes += len(event)
            if size_bytes > MAX_FIELDS_BYTES:
                break
            current += event
    raise _invalid_form(f"a field {ARCHIVE!r} is required, after all other fields, which are short")


async def _read_archive(parts: AsyncIterator[PartStart | bytes]) -> AsyncIterator[bytes]:
    async for event in parts:
        if isinstance(event, PartStart):
            raise _invalid_form(f"the field {ARCHIVE!r} must be the last one; {event.name[:100]!r} follows it")
        yield event


def _locate(problem: Any, given: Mapping[str, UploadParameter]) -> dict[str, Any]:  # Any: pydantic's error details
    """Return the problem with the parameter's location; a missing parameter is located in the query."""
    parameter = given.get(str(problem["loc"][0])) if problem["loc"] else None
    return {**problem, "loc": ("query" if parameter is None else parameter.location, *problem["loc"])}


def _invalid_form(reason: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", ARCHIVE), "msg": reason, "type": "multipart"}])
