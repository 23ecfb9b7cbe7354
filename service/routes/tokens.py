"""`/tokens`: the tokens of users."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.users import IssuedTokenResponse, TokenCreate, TokenResponse
from registry.access import tokens
from registry.access.caller import Caller
from service.http.openapi import problems
from service.http.request_context import Context
from service.routes.parameters import Paging

router = APIRouter(tags=["tokens"])
TokenPage = PageResponse[TokenResponse]
UserFilter = Annotated[UUID | None, Query(description="Only those of this user.")]


@router.get("/tokens", summary="List tokens", responses=problems(404))
async def list_tokens(context: Context, page: Paging, user: UserFilter = None) -> TokenPage:
    """List your tokens, or anyone's for admins, oldest first and without their secrets."""
    return await context.read(
        lambda session, caller: TokenPage.model_validate(
            tokens.list_tokens(session, caller, user, page.after, page.limit)
        )
    )


@router.post("/tokens", status_code=201, summary="Create a token", responses=problems(403, 404))
async def create_token(context: Context, body: TokenCreate) -> IssuedTokenResponse:
    """Create a token for any user; its text is shown only once. Admins only."""

    def work(session: Session, caller: Caller) -> IssuedTokenResponse:
        user_id = body.user or caller.user_id
        assert user_id is not None
        lifetime = None if body.lifetime_s is None else timedelta(seconds=body.lifetime_s)
        issued = tokens.issue_token(session, caller, user_id, note=body.note, lifetime=lifetime)
        return IssuedTokenResponse(**TokenResponse.model_validate(issued.token).model_dump(), text=issued.text)

    return await context.write(work)


@router.delete("/tokens/{token_id}", status_code=204, summary="Revoke a token", responses=problems(404))
async def revoke_token(context: Context, token_id: UUID) -> None:
    """Revoke a token at once: your own or, for admins, anyone's."""
    await context.write(lambda session, caller: tokens.revoke_token(session, caller, token_id))
