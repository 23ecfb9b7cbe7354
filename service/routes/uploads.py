"""Uploads of pictures: new sources, and more samples for existing ones."""

from pathlib import Path
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from alacarte.api.sources import (
    SamplesUploadRequest,
    SourceCreate,
    SourceUploadRequest,
    UploadResponse,
)
from registry.access.caller import Caller
from registry.catalog.sources import create_source
from registry.catalog.tasks import find_task
from registry.ingest import upload
from registry.ingest.target import precheck_samples_upload, precheck_source_upload
from registry.ingest.upload import IngestResult
from registry.registry import Registry
from service.http.json_body import parse_json_body
from service.http.media_types import JSON, MULTIPART
from service.http.openapi import LOCATION, example_of, located, problems, schema_ref
from service.http.request_context import Context, RequestContext
from service.http.upload_body import ARCHIVE, ARCHIVE_TYPES, open_upload, receive_upload

router = APIRouter(tags=["sources"])


def _describe_body(
    model: type[SourceUploadRequest] | type[SamplesUploadRequest], **alternatives: Any
) -> dict[str, Any]:  # Any: parts of OpenAPI
    """Describe an upload: the archive as the body and its fields in the query, or all in a form."""
    fields = model.model_json_schema()
    archive = {"type": "string", "format": "binary"}
    form = {**fields, "properties": {**fields["properties"], ARCHIVE: archive}, "required": [ARCHIVE]}
    content = {MULTIPART: {"schema": form}, **{kind: {"schema": archive} for kind in ARCHIVE_TYPES}, **alternatives}
    query = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": schema.get("description", "")}
        for name, schema in fields["properties"].items()
    ]
    return {"parameters": query, "requestBody": {"required": True, "content": content}}


@router.post(
    "/sources",
    status_code=202,
    summary="Upload a source",
    responses={
        **located(202),
        **problems(403, 404, 409),
        201: {"description": "A source without pictures was created.", "model": UploadResponse, "headers": LOCATION},
    },
    openapi_extra=_describe_body(
        SourceUploadRequest, **{JSON: {"schema": schema_ref(SourceCreate), "example": example_of(SourceCreate)}}
    ),
)
async def upload_source(request: Request, response: Response, context: Context) -> UploadResponse:
    """Create a source from a zip or tar of class folders, a tar of WebDataset pairs, or a CSV with its images.

    Send the archive as the body and the other fields in the query, or a form whose last field is `archive`. A JSON
    body creates a source without pictures instead (`201`), for prompts that are trained elsewhere. All pictures are
    stored or none; after a `202` they are kept and trained: see `GET /sources/{id}`.
    """
    if context.media_type == JSON:
        created = await _create_empty_source(context, await request.body())
        response.status_code = 201
    else:
        created = await _create_source(context, request)
    response.headers["Location"] = f"/sources/{created.source_id}"
    return created


@router.post(
    "/sources/{source_id}/samples",
    status_code=202,
    summary="Add pictures to a source",
    responses=located(202) | problems(403, 404, 409),
    openapi_extra=_describe_body(SamplesUploadRequest),
)
async def add_samples(request: Request, response: Response, context: Context, source_id: UUID) -> UploadResponse:
    """Add pictures to a source, in new shards; existing shards do not change.

    Forgotten pictures are accepted only with `readmit`, which needs the right to forget as well.
    """
    stream = await open_upload(request, context)
    fields = stream.validate_parameters(SamplesUploadRequest)
    quota_bytes = context.state.registry.default_quota_bytes
    await context.read(
        lambda session, caller: precheck_samples_upload(session, caller, source_id, quota_bytes, readmit=fields.readmit)
    )

    def ingest(registry: Registry, caller: Caller, archive: Path) -> IngestResult:
        return upload.add_samples(
            registry,
            caller,
            source_id,
            archive,
            shards=fields.shards,
            readmit=fields.readmit,
            within=fields.within,
            unreadable=fields.unreadable,
            scratch=archive.parent,
        )

    added = UploadResponse.model_validate(await receive_upload(context, stream, ingest))
    response.headers["Location"] = f"/sources/{source_id}"
    return added


async def _create_source(context: RequestContext, request: Request) -> UploadResponse:
    stream = await open_upload(request, context)
    fields = stream.validate_parameters(SourceUploadRequest)
    quota_bytes = context.state.registry.default_quota_bytes
    task_id = await context.read(
        lambda session, caller: precheck_source_upload(
            session, caller, fields.task, fields.name, fields.owner, quota_bytes
        )
    )

    def ingest(registry: Registry, caller: Caller, archive: Path) -> IngestResult:
        return upload.upload_source(
            registry,
            caller,
            task_id,
            fields.name,
            archive,
            shards=fields.shards,
            owner_id=fields.owner,
            within=fields.within,
            unreadable=fields.unreadable,
            scratch=archive.parent,
        )

    return UploadResponse.model_validate(await receive_upload(context, stream, ingest))


async def _create_empty_source(context: RequestContext, body: bytes) -> UploadResponse:
    fields = parse_json_body(SourceCreate, body)

    def work(session: Session, caller: Caller) -> UploadResponse:
        task_id = find_task(session, fields.task).id
        source = create_source(session, caller, task_id, fields.name, fields.owner)
        return UploadResponse(source_id=source.id, shards=[], samples=0, size_bytes=0, skipped=0, skipped_files=[])

    return await context.write(work)
