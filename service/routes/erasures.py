"""Forget a source, a shard or one picture; the state of erasures; and the verification of receipts."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from alacarte.api.base import DIGEST_EXAMPLE, PageResponse
from alacarte.api.erasures import ErasureResponse, ReceiptVerificationResponse
from registry.access.caller import Caller
from registry.db.models.erasures import Erasure
from registry.erasure import request, status
from registry.erasure.verify import verify_receipt
from registry.errors import Conflict
from registry.registry import Registry
from service.http.openapi import located, problems
from service.http.request_context import Context, RequestContext
from service.routes.parameters import Paging

router = APIRouter(tags=["forgetting"])
ErasurePage = PageResponse[ErasureResponse]
Digest = Annotated[
    str, Path(pattern="^[0-9a-f]{64}$", description="The SHA-256 of the picture's file.", examples=[DIGEST_EXAMPLE])
]


@router.delete(
    "/sources/{source_id}", status_code=202, summary="Forget a source", responses=located(202) | problems(403, 404)
)
async def forget_source(response: Response, context: Context, source_id: UUID) -> ErasureResponse:
    """Forget a source: from this response on nobody can see or use it, and the erasure removes the rest.

    Repeated by the same caller or by an admin, the request returns the same erasure.
    """
    return await _forget(context, response, lambda registry, caller: request.forget_source(registry, caller, source_id))


@router.delete(
    "/sources/{source_id}/shards/{shard_id}",
    status_code=202,
    summary="Forget a shard",
    responses=located(202) | problems(403, 404),
)
async def forget_shard(response: Response, context: Context, source_id: UUID, shard_id: UUID) -> ErasureResponse:
    """Forget a shard: from this response on nobody can use it, and its pictures return only with `readmit`.

    Repeated by the same caller or by an admin, the request returns the same erasure.
    """
    return await _forget(
        context, response, lambda registry, caller: request.forget_shard(registry, caller, source_id, shard_id)
    )


@router.delete(
    "/sources/{source_id}/samples/{digest}",
    status_code=202,
    summary="Forget a picture",
    responses=located(202) | problems(403, 404),
)
async def forget_sample(response: Response, context: Context, source_id: UUID, digest: Digest) -> ErasureResponse:
    """Forget a picture: its shard is not served from this response on, until it is trained again without it.

    Repeated by the same caller or by an admin, the request returns the same erasure.
    """
    return await _forget(
        context, response, lambda registry, caller: request.forget_sample(registry, caller, source_id, digest)
    )


@router.get("/erasures", summary="List erasures")
async def list_erasures(context: Context, page: Paging) -> ErasurePage:
    """List the erasures that you requested, or all for admins, oldest first."""
    return await context.read(
        lambda session, caller: ErasurePage.model_validate(
            status.list_erasures(session, caller, after=page.after, limit=page.limit)
        )
    )


@router.get("/erasures/{erasure_id}", summary="Get an erasure", responses=problems(404))
async def get_erasure(context: Context, erasure_id: UUID) -> ErasureResponse:
    """Return the steps of the erasure, why each is not done yet, and the signed receipt once all are done."""
    return await context.read(
        lambda session, caller: ErasureResponse.model_validate(status.show_erasure(session, caller, erasure_id))
    )


@router.get("/erasures/{erasure_id}/verification", summary="Verify a receipt", responses=problems(404, 409))
async def verify_erasure(context: Context, erasure_id: UUID) -> ReceiptVerificationResponse:
    """Check the signature of the erasure's receipt, and search again for what it states is gone."""

    def work(registry: Registry, caller: Caller) -> ReceiptVerificationResponse:
        with registry.database.read_transaction() as session:
            receipt = status.show_erasure(session, caller, erasure_id).receipt
        if receipt is None:
            raise Conflict("the erasure is not complete, so there is no receipt yet: wait for it")
        return ReceiptVerificationResponse.model_validate(verify_receipt(registry, receipt))

    return await context.run(work)


async def _forget(
    context: RequestContext, response: Response, start_erasure: Callable[[Registry, Caller], Erasure]
) -> ErasureResponse:
    def work(registry: Registry, caller: Caller) -> ErasureResponse:
        erasure = start_erasure(registry, caller)
        with registry.database.read_transaction() as session:
            return ErasureResponse.model_validate(status.progress_of(session, erasure))

    erasure = await context.run(work)
    if erasure.state == "running":
        context.state.maintenance.schedule_erasure(erasure.id)
    response.headers["Location"] = f"/erasures/{erasure.id}"
    return erasure
