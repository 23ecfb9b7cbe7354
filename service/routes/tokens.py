"""`/tokens`: how users prove who they are."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.users import IssuedTokenResponse, TokenCreate, TokenResponse
from registry.access.caller import Caller
from registry.access.tokens import issue_token, list_tokens, revoke_token
from registry.db.paging import DEFAULT_LIMIT
from service.http.openapi import problems
from service.http.request_context import Context
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["tokens"])
OfUser = Annotated[UUID | None, Query(description="Only those of this user.")]


@router.get("/tokens", summary="List tokens", responses=problems(404))
async def index(
    context: Context, user: OfUser = None, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT
) -> PageResponse[TokenResponse]:
    """Your tokens, or anyone's for admins, the oldest first; none shows what proves it."""
    return await context.read(
        lambda session, caller: to_page_response(
            list_tokens(session, caller, user, after, limit), TokenResponse.model_validate
        )
    )


@router.post("/tokens", status_code=201, summary="Issue a token", responses=problems(403, 404))
async def issue(context: Context, token: TokenCreate) -> IssuedTokenResponse:
    """Issues a token to anyone, for admins; its text is shown this once."""

    def work(session: Session, caller: Caller) -> IssuedTokenResponse:
        holder = token.user or caller.user_id
        assert holder is not None
        lifetime = None if token.lifetime_s is None else timedelta(seconds=token.lifetime_s)
        issued = issue_token(session, caller, holder, note=token.note, lifetime=lifetime)
        return IssuedTokenResponse(**TokenResponse.model_validate(issued.token).model_dump(), text=issued.text)

    return await context.write(work)


@router.delete("/tokens/{token_id}", status_code=204, summary="Revoke a token", responses=problems(404))
async def revoke(context: Context, token_id: UUID) -> None:
    """Ends a token at once, your own or, for admins, anyone's."""
    await context.write(lambda session, caller: revoke_token(session, caller, token_id))
