"""Forgetting: a source, a shard or one picture; and how it stands."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from alacarte.api.base import DIGEST_EXAMPLE, PageResponse
from alacarte.api.erasures import ErasureResponse, ReceiptCheckResponse, ReceiptVerdictResponse
from registry.access.caller import Caller
from registry.db.models.erasures import Erasure
from registry.db.paging import DEFAULT_LIMIT
from registry.erasure.request import forget_sample, forget_shard, forget_source
from registry.erasure.status import ErasureProgress, list_erasures, progress_of, show_erasure
from registry.erasure.verify import verify_receipt
from registry.errors import Conflict
from registry.registry import Registry
from service.http.openapi import located, problems
from service.http.request_context import Context, RequestContext
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["forgetting"])
Digest = Annotated[
    str, Path(pattern="^[0-9a-f]{64}$", description="The SHA-256 of the picture's file.", examples=[DIGEST_EXAMPLE])
]


@router.delete(
    "/sources/{source_id}", status_code=202, summary="Forget a source", responses=located(202) | problems(403, 404)
)
async def source(response: Response, context: Context, source_id: UUID) -> ErasureResponse:
    """Nobody sees or uses the source from the moment of this answer on; the rest follows, and ends in a receipt.

    Asked again by whoever asked, or by an admin, it answers with the same erasure.
    """
    return await _forget(context, response, lambda registry, caller: forget_source(registry, caller, source_id))


@router.delete(
    "/sources/{source_id}/shards/{shard_id}",
    status_code=202,
    summary="Forget a shard",
    responses=located(202) | problems(403, 404),
)
async def shard(response: Response, context: Context, source_id: UUID, shard_id: UUID) -> ErasureResponse:
    """Nobody uses the shard from the moment of this answer on, and none of its pictures comes back unasked.

    Asked again by whoever asked, or by an admin, it answers with the same erasure.
    """
    return await _forget(
        context, response, lambda registry, caller: forget_shard(registry, caller, source_id, shard_id)
    )


@router.delete(
    "/sources/{source_id}/samples/{digest}",
    status_code=202,
    summary="Forget a picture",
    responses=located(202) | problems(403, 404),
)
async def sample(response: Response, context: Context, source_id: UUID, digest: Digest) -> ErasureResponse:
    """The picture's shard stops serving at once, is trained again without it, and comes back.

    Asked again by whoever asked, or by an admin, it answers with the same erasure.
    """
    return await _forget(context, response, lambda registry, caller: forget_sample(registry, caller, source_id, digest))


@router.get("/erasures", summary="List erasures")
async def index(
    context: Context, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT
) -> PageResponse[ErasureResponse]:
    """What you asked to be forgotten, or all for admins, the oldest first."""
    return await context.read(
        lambda session, caller: to_page_response(list_erasures(session, caller, after=after, limit=limit), _told)
    )


@router.get("/erasures/{erasure_id}", summary="Show an erasure", responses=problems(404))
async def show(context: Context, erasure_id: UUID) -> ErasureResponse:
    """Its steps, what each waits for, and the signed receipt once all is done."""
    return await context.read(lambda session, caller: _told(show_erasure(session, caller, erasure_id)))


@router.get("/erasures/{erasure_id}/verdict", summary="Check a receipt", responses=problems(404, 409))
async def verdict(context: Context, erasure_id: UUID) -> ReceiptVerdictResponse:
    """Checks the signature of the erasure's receipt, and looks again for what it says is gone."""

    def work(registry: Registry, caller: Caller) -> ReceiptVerdictResponse:
        with registry.database.read_transaction() as session:
            progress = show_erasure(session, caller, erasure_id)
        if progress.receipt is None:
            raise Conflict("the erasure is not complete, so there is no receipt yet: wait for it")
        found = verify_receipt(registry, progress.receipt)
        return ReceiptVerdictResponse(
            holds=found.holds, checks=[ReceiptCheckResponse.model_validate(check) for check in found.checks]
        )

    return await context.do(work)


async def _forget(
    context: RequestContext, response: Response, begin: Callable[[Registry, Caller], Erasure]
) -> ErasureResponse:
    def work(registry: Registry, caller: Caller) -> ErasureResponse:
        erasure = begin(registry, caller)
        with registry.database.read_transaction() as session:
            return _told(progress_of(session, erasure))

    begun = await context.do(work)
    if begun.state == "running":
        context.state.maintenance.schedule_erasure(begun.id)
    response.headers["Location"] = f"/erasures/{begun.id}"
    return begun


def _told(progress: ErasureProgress) -> ErasureResponse:
    return ErasureResponse.model_validate(progress)
