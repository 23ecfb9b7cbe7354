"""`/tokens`: how users prove who they are."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.tokens import issue_token, list_tokens, revoke_token
from service.http.request_context import Context
from service.schemas.base import DEFAULT_PAGE, After, Limit, PageOf, page_of
from service.schemas.problem import problems
from service.schemas.users import TokenIssued, TokenToIssue, TokenTold

router = APIRouter(tags=["tokens"])
OfUser = Annotated[UUID | None, Query(description="Only those of this user.")]


@router.get("/tokens", summary="List tokens", responses=problems(404))
async def index(
    context: Context, user: OfUser = None, after: After = None, limit: Limit = DEFAULT_PAGE
) -> PageOf[TokenTold]:
    """Your tokens, or anyone's for admins, the oldest first; none shows what proves it."""
    return await context.read(
        lambda session, caller: page_of(list_tokens(session, caller, user, after, limit), TokenTold.model_validate)
    )


@router.post("/tokens", status_code=201, summary="Issue a token", responses=problems(403, 404))
async def issue(context: Context, token: TokenToIssue) -> TokenIssued:
    """Issues a token to anyone, for admins; its text is shown this once."""

    def work(session: Session, caller: Caller) -> TokenIssued:
        holder = token.user or caller.user_id
        assert holder is not None
        lifetime = None if token.lifetime_s is None else timedelta(seconds=token.lifetime_s)
        issued = issue_token(session, caller, holder, note=token.note, lifetime=lifetime)
        return TokenIssued(**TokenTold.model_validate(issued.token).model_dump(), text=issued.text)

    return await context.write(work)


@router.delete("/tokens/{token_id}", status_code=204, summary="Revoke a token", responses=problems(404))
async def revoke(context: Context, token_id: UUID) -> None:
    """Ends a token at once, your own or, for admins, anyone's."""
    await context.write(lambda session, caller: revoke_token(session, caller, token_id))
