"""`/grants`: who may use, manage or forget which source."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from alacarte.api.base import PageResponse
from alacarte.api.literals import Right
from alacarte.api.users import GrantCreate, GrantResponse
from registry.access import grants
from service.http.openapi import problems
from service.http.request_context import Context
from service.routes.parameters import Paging

router = APIRouter(tags=["grants"])
GrantPage = PageResponse[GrantResponse]
SourceFilter = Annotated[UUID | None, Query(description="Only those to this source.")]
UserFilter = Annotated[UUID | None, Query(description="Only those of this user or group.")]


@router.get("/grants", summary="List grants")
async def list_grants(
    context: Context, page: Paging, source: SourceFilter = None, user: UserFilter = None
) -> GrantPage:
    """List the grants to sources that you own or manage, and your own, oldest first."""
    return await context.read(
        lambda session, caller: GrantPage.model_validate(
            grants.list_grants(session, caller, source, user, page.after, page.limit)
        )
    )


@router.post("/grants", status_code=201, summary="Grant a right", responses=problems(403, 404))
async def create_grant(context: Context, body: GrantCreate) -> GrantResponse:
    """Grant a user or group a right to a source; an existing grant is returned as it is."""
    return await context.write(
        lambda session, caller: GrantResponse.model_validate(
            grants.grant_right(session, caller, body.user, body.source, body.right)
        )
    )


@router.delete("/grants", status_code=204, summary="Revoke a right", responses=problems(403, 404))
async def revoke_grant(
    context: Context,
    user: Annotated[UUID, Query(description="The user or group.")],
    source: Annotated[UUID, Query(description="The source.")],
    right: Annotated[Right, Query(description="The right.")] = "use",
) -> None:
    """Revoke a right at once, also for requests in flight."""
    await context.write(lambda session, caller: grants.revoke_right(session, caller, user, source, right))
