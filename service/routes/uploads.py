"""Uploads: new sources, and pictures for those that are there."""

from pathlib import Path
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from alacarte.api.sources import (
    MAX_LISTED_REFUSALS,
    RefusedFileResponse,
    SamplesUploadRequest,
    SourceCreate,
    SourceUploadRequest,
    UploadResponse,
)
from registry.access.caller import Caller
from registry.catalog.sources import create_source
from registry.catalog.tasks import find_task
from registry.ingest.target import precheck_samples_upload, precheck_source_upload
from registry.ingest.upload import IngestResult, add_samples, upload_source
from registry.registry import Registry
from service.http.json_body import parse_json_body
from service.http.multipart import JSON, MULTIPART
from service.http.openapi import LOCATION, example_of, located, problems, schema_ref
from service.http.request_context import Context, RequestContext
from service.http.upload_body import ARCHIVE, ARCHIVE_TYPES, open_upload, receive_upload

router = APIRouter(tags=["sources"])


def _bodies(model: type[SourceUploadRequest] | type[SamplesUploadRequest], *others: dict[str, Any]) -> dict[str, Any]:
    """The description of an upload: the archive itself with a query, or a form. Any: parts of OpenAPI."""
    said = model.model_json_schema()
    archive = {"type": "string", "format": "binary"}
    form = {**said, "properties": {**said["properties"], ARCHIVE: archive}, "required": [ARCHIVE]}
    content = {MULTIPART: {"schema": form}} | {kind: {"schema": archive} for kind in ARCHIVE_TYPES}
    for other in others:
        content |= other
    query = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": schema.get("description", "")}
        for name, schema in said["properties"].items()
    ]
    return {"parameters": query, "requestBody": {"required": True, "content": content}}


@router.post(
    "/sources",
    status_code=202,
    summary="Upload a source",
    responses={
        **located(202),
        **problems(403, 404, 409),
        201: {"description": "A source without pictures was made.", "model": UploadResponse, "headers": LOCATION},
    },
    openapi_extra=_bodies(
        SourceUploadRequest,
        {JSON: {"schema": schema_ref(SourceCreate), "example": example_of(SourceCreate)}},
    ),
)
async def upload(request: Request, response: Response, context: Context) -> UploadResponse:
    """Takes in a zip or tar of class folders, a tar of WebDataset pairs, or a CSV with its images: all or nothing.

    Send the archive as the body and the rest in the query, or a form whose last field is `archive`. A JSON body
    makes a source without pictures instead (`201`), for prompts that are trained elsewhere. What is answered `202`
    is kept, and its training is done in the end: see `GET /sources/{id}`.
    """
    if context.media_type == JSON:
        made = await _make_empty(context, await request.body())
        response.status_code = 201
    else:
        made = await _take_source(context, request)
    response.headers["Location"] = f"/sources/{made.source}"
    return made


@router.post(
    "/sources/{source_id}/samples",
    status_code=202,
    summary="Add pictures to a source",
    responses=located(202) | problems(403, 404, 409),
    openapi_extra=_bodies(SamplesUploadRequest),
)
async def add(request: Request, response: Response, context: Context, source_id: UUID) -> UploadResponse:
    """Takes in more pictures, which form new shards; those that are trained are not touched.

    Pictures that were forgotten come back only with `readmit`, which takes the right to have them forgotten too.
    """
    delivery = await open_upload(request, context)
    said = delivery.validate_parameters(SamplesUploadRequest)
    quota_bytes = context.state.registry.quota_bytes
    await context.read(
        lambda session, caller: precheck_samples_upload(session, caller, source_id, quota_bytes, readmit=said.readmit)
    )

    def keep(registry: Registry, caller: Caller, archive: Path) -> IngestResult:
        return add_samples(
            registry,
            caller,
            source_id,
            archive,
            shards=said.shards,
            readmit=said.readmit,
            within=said.within,
            unreadable=said.unreadable,
            scratch=archive.parent,
        )

    made = _told(await receive_upload(context, delivery, keep))
    response.headers["Location"] = f"/sources/{source_id}"
    return made


async def _take_source(context: RequestContext, request: Request) -> UploadResponse:
    delivery = await open_upload(request, context)
    said = delivery.validate_parameters(SourceUploadRequest)

    quota_bytes = context.state.registry.quota_bytes
    task_id = await context.read(
        lambda session, caller: precheck_source_upload(session, caller, said.task, said.name, said.owner, quota_bytes)
    )

    def keep(registry: Registry, caller: Caller, archive: Path) -> IngestResult:
        return upload_source(
            registry,
            caller,
            task_id,
            said.name,
            archive,
            shards=said.shards,
            owner_id=said.owner,
            within=said.within,
            unreadable=said.unreadable,
            scratch=archive.parent,
        )

    return _told(await receive_upload(context, delivery, keep))


async def _make_empty(context: RequestContext, body: bytes) -> UploadResponse:
    source = parse_json_body(SourceCreate, body)

    def work(session: Session, caller: Caller) -> UploadResponse:
        task_id = find_task(session, source.task).id
        made = create_source(session, caller, task_id, source.name, source.owner)
        return UploadResponse(source=made.id, shards=[], samples=0, size_bytes=0, refused=0, refusals=[])

    return await context.write(work)


def _told(admission: IngestResult) -> UploadResponse:
    return UploadResponse(
        source=admission.source_id,
        shards=list(admission.shards),
        samples=admission.samples,
        size_bytes=admission.size_bytes,
        refused=len(admission.skipped),
        refusals=[RefusedFileResponse.model_validate(refusal) for refusal in admission.skipped[:MAX_LISTED_REFUSALS]],
    )
