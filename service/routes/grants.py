"""`/grants`: who may use, manage or forget which source."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from alacarte.api.base import PageResponse
from alacarte.api.literals import Right
from alacarte.api.users import GrantCreate, GrantResponse
from registry.access.grants import grant_right, list_grants, revoke_right
from registry.db.paging import DEFAULT_LIMIT
from service.http.openapi import problems
from service.http.request_context import Context
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["grants"])
OfSource = Annotated[UUID | None, Query(description="Only those to this source.")]
OfUser = Annotated[UUID | None, Query(description="Only those of this user or group.")]


@router.get("/grants", summary="List grants")
async def index(
    context: Context,
    source: OfSource = None,
    user: OfUser = None,
    after: PageCursor = None,
    limit: PageLimit = DEFAULT_LIMIT,
) -> PageResponse[GrantResponse]:
    """The grants to sources that you own or manage, and your own, the oldest first."""
    return await context.read(
        lambda session, caller: to_page_response(
            list_grants(session, caller, source, user, after, limit), GrantResponse.model_validate
        )
    )


@router.post("/grants", status_code=201, summary="Grant a right", responses=problems(403, 404))
async def give(context: Context, given: GrantCreate) -> GrantResponse:
    """Gives a user or group a right to a source; one that they have already stays as it is."""
    return await context.write(
        lambda session, caller: GrantResponse.model_validate(
            grant_right(session, caller, given.user, given.source, given.right)
        )
    )


@router.delete("/grants", status_code=204, summary="Revoke a right", responses=problems(403, 404))
async def take_back(
    context: Context,
    user: Annotated[UUID, Query(description="The user or group.")],
    source: Annotated[UUID, Query(description="The source.")],
    right: Annotated[Right, Query(description="The right.")] = "use",
) -> None:
    """Takes a right back at once: also from requests that are under way."""
    await context.write(lambda session, caller: revoke_right(session, caller, user, source, right))
