"""`/sources`: sources, their samples, and the control of their training."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.sources import SampleResponse, SourceDetailResponse, SourceResponse, TrainingControlResponse
from registry.access.caller import Caller
from registry.catalog import samples, sources
from registry.catalog.source_status import read_source_status
from registry.catalog.tasks import find_task
from registry.training import control
from service.http.openapi import problems
from service.http.request_context import Context
from service.routes.parameters import Paging, TaskFilter

router = APIRouter(tags=["sources"])
SourcePage = PageResponse[SourceResponse]
SamplePage = PageResponse[SampleResponse]
LabelFilter = Annotated[str | None, Query(description="Only those with this label.")]


@router.get("/sources", summary="List sources", responses=problems(404))
async def list_sources(context: Context, page: Paging, task: TaskFilter = None) -> SourcePage:
    """List the sources that you own or have a right to, or all for admins, oldest first."""

    def work(session: Session, caller: Caller) -> SourcePage:
        task_id = None if task is None else find_task(session, task).id
        return SourcePage.model_validate(sources.list_sources(session, caller, task_id, page.after, page.limit))

    return await context.read(work)


@router.get("/sources/{source_id}", summary="Get a source", responses=problems(404))
async def get_source(context: Context, source_id: UUID) -> SourceDetailResponse:
    """Return what the source holds and the training state of each shard."""
    return await context.read(
        lambda session, caller: SourceDetailResponse.model_validate(read_source_status(session, caller, source_id))
    )


@router.get("/sources/{source_id}/samples", summary="List a source's samples", responses=problems(403, 404))
async def list_samples(context: Context, source_id: UUID, page: Paging, label: LabelFilter = None) -> SamplePage:
    """List the pictures of the source by their digests; this needs the right to manage or forget it."""
    return await context.read(
        lambda session, caller: SamplePage.model_validate(
            samples.list_samples(session, caller, source_id, page.after, page.limit, label=label)
        )
    )


@router.post("/sources/{source_id}/cancel", summary="Stop training", responses=problems(403, 404))
async def cancel_training(context: Context, source_id: UUID) -> TrainingControlResponse:
    """Stop the training of the source's untrained shards until it is resumed."""
    return await context.write(
        lambda session, caller: TrainingControlResponse(shards=control.cancel_training(session, caller, source_id))
    )


@router.post("/sources/{source_id}/resume", summary="Resume training", responses=problems(403, 404))
async def resume_training(context: Context, source_id: UUID) -> TrainingControlResponse:
    """Queue all untrained shards of the source again, at once, whatever failed before."""
    return await context.write(
        lambda session, caller: TrainingControlResponse(shards=control.resume_training(session, caller, source_id))
    )
