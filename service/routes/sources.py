"""`/sources`: what was lent, and how far its training has come."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.sources import (
    SampleResponse,
    ShardResponse,
    SourceDetailResponse,
    SourceResponse,
    TrainingControlResponse,
)
from registry.access.caller import Caller
from registry.catalog.samples import list_samples
from registry.catalog.source_status import SourceStatus, read_source_status
from registry.catalog.sources import list_sources
from registry.catalog.tasks import find_task
from registry.db.paging import DEFAULT_LIMIT
from registry.training.control import cancel_training, resume_training
from service.http.openapi import problems
from service.http.request_context import Context
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["sources"])
OfTask = Annotated[str | None, Query(description="Only those of this task, by name or id.")]
OfLabel = Annotated[str | None, Query(description="Only those of this label.")]


@router.get("/sources", summary="List sources", responses=problems(404))
async def index(
    context: Context, task: OfTask = None, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT
) -> PageResponse[SourceResponse]:
    """The sources that you own or have a right to, or all for admins, the oldest first."""

    def work(session: Session, caller: Caller) -> PageResponse[SourceResponse]:
        task_id = None if task is None else find_task(session, task).id
        return to_page_response(list_sources(session, caller, task_id, after, limit), SourceResponse.model_validate)

    return await context.read(work)


@router.get("/sources/{source_id}", summary="Show a source", responses=problems(404))
async def show(context: Context, source_id: UUID) -> SourceDetailResponse:
    """What the source holds, and how far the training of each shard has come."""
    return await context.read(lambda session, caller: _told(read_source_status(session, caller, source_id)))


@router.get("/sources/{source_id}/samples", summary="List a source's samples", responses=problems(403, 404))
async def samples(
    context: Context,
    source_id: UUID,
    label: OfLabel = None,
    after: PageCursor = None,
    limit: PageLimit = DEFAULT_LIMIT,
) -> PageResponse[SampleResponse]:
    """Which pictures the source holds, by their digests, for those who manage it or may have some of it forgotten."""
    return await context.read(
        lambda session, caller: to_page_response(
            list_samples(session, caller, source_id, after, limit, label=label), SampleResponse.model_validate
        )
    )


@router.post("/sources/{source_id}/cancel", summary="Stop training", responses=problems(403, 404))
async def cancel(context: Context, source_id: UUID) -> TrainingControlResponse:
    """Nobody trains the source's untrained shards until it is resumed."""
    return await context.write(
        lambda session, caller: TrainingControlResponse(shards=cancel_training(session, caller, source_id))
    )


@router.post("/sources/{source_id}/resume", summary="Let training go on", responses=problems(403, 404))
async def resume(context: Context, source_id: UUID) -> TrainingControlResponse:
    """All untrained shards of the source are work again, at once, whatever failed before."""
    return await context.write(
        lambda session, caller: TrainingControlResponse(shards=resume_training(session, caller, source_id))
    )


def _told(state: SourceStatus) -> SourceDetailResponse:
    return SourceDetailResponse(
        id=state.id,
        task_id=state.task_id,
        name=state.name,
        owner_id=state.owner_id,
        created_at=state.created_at,
        rights=sorted(state.rights),
        labels=list(state.labels),
        samples=state.samples,
        size_bytes=state.size_bytes,
        progress=state.progress,
        shards=[ShardResponse.model_validate(shard) for shard in state.shards],
    )
