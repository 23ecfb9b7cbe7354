"""`/users`: who there is, who is in which group, who vouches for them, and how much they may store."""

from uuid import UUID

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.users import QuotaRequest, QuotaResponse, SubjectRequest, UserCreate, UserResponse
from registry.access.caller import Caller
from registry.access.oidc_subjects import bind_subject, unbind_subject
from registry.access.quotas import read_quota, set_quota
from registry.access.users import (
    add_member,
    create_user,
    find_user,
    list_groups,
    list_members,
    list_users,
    remove_member,
    remove_user,
)
from registry.db.paging import DEFAULT_LIMIT
from registry.errors import Invalid
from service.http.openapi import located, problems
from service.http.request_context import Context
from service.routes.parameters import PageCursor, PageLimit, to_page_response

router = APIRouter(tags=["users"])
Users = PageResponse[UserResponse]


@router.get("/users", summary="List users")
async def index(context: Context, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT) -> Users:
    """The users and groups that you may see, the oldest first: all for admins, else yourself and your groups."""
    return await context.read(
        lambda session, caller: to_page_response(list_users(session, caller, after, limit), UserResponse.model_validate)
    )


@router.post("/users", status_code=201, summary="Make a user or a group", responses=located(201) | problems(403, 409))
async def make(context: Context, user: UserCreate, response: Response) -> UserResponse:
    """Makes a user, or a group, which holds grants for its members; for admins."""
    made = await context.write(
        lambda session, caller: UserResponse.model_validate(
            create_user(session, caller, user.name, user.role, is_group=user.is_group)
        )
    )
    response.headers["Location"] = f"/users/{made.id}"
    return made


@router.get("/users/me", summary="Show yourself")
async def show_me(context: Context) -> UserResponse:
    """Whose token it is."""
    return await context.read(
        lambda session, caller: UserResponse.model_validate(find_user(session, caller, context.user_id))
    )


@router.get("/users/{user_id}", summary="Show a user", responses=problems(404))
async def show(context: Context, user_id: UUID) -> UserResponse:
    """A user or group that you may see."""
    return await context.read(lambda session, caller: UserResponse.model_validate(find_user(session, caller, user_id)))


@router.delete("/users/{user_id}", status_code=204, summary="Remove a user", responses=problems(403, 404, 409))
async def remove(context: Context, user_id: UUID) -> None:
    """Removes a user with their tokens, grants and memberships, for admins; their sources stay, without an owner."""
    await context.write(lambda session, caller: remove_user(session, caller, user_id))


@router.get("/users/{user_id}/groups", summary="List a user's groups", responses=problems(404))
async def groups(context: Context, user_id: UUID, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT) -> Users:
    """The groups that a user is in, for admins and for the user."""
    return await context.read(
        lambda session, caller: to_page_response(
            list_groups(session, caller, user_id, after, limit), UserResponse.model_validate
        )
    )


@router.get("/users/{group_id}/members", summary="List a group's members", responses=problems(403, 404))
async def members(
    context: Context, group_id: UUID, after: PageCursor = None, limit: PageLimit = DEFAULT_LIMIT
) -> Users:
    """The members of a group, for admins."""
    return await context.read(
        lambda session, caller: to_page_response(
            list_members(session, caller, group_id, after, limit), UserResponse.model_validate
        )
    )


@router.put(
    "/users/{group_id}/members/{user_id}", status_code=204, summary="Add a member", responses=problems(403, 404)
)
async def join(context: Context, group_id: UUID, user_id: UUID) -> None:
    """Lets a user have what the group is granted, for admins."""
    await context.write(lambda session, caller: add_member(session, caller, group_id, user_id))


@router.delete(
    "/users/{group_id}/members/{user_id}", status_code=204, summary="Remove a member", responses=problems(403, 404)
)
async def part(context: Context, group_id: UUID, user_id: UUID) -> None:
    """Ends what a user has through the group, for admins."""
    await context.write(lambda session, caller: remove_member(session, caller, group_id, user_id))


@router.put("/users/{user_id}/subject", summary="Bind a subject", responses=problems(403, 404, 409))
async def bind(context: Context, user_id: UUID, told: SubjectRequest) -> UserResponse:
    """Lets a subject of an issuer prove to be this user, by its JWTs, instead of any that did so before; for admins."""
    issuer = told.issuer or context.state.settings.oidc_issuer
    if issuer is None:
        raise Invalid("this service believes no issuer: name one, or set ALACARTE_OIDC_ISSUER")
    return await context.write(
        lambda session, caller: UserResponse.model_validate(
            bind_subject(session, caller, user_id, issuer, told.subject)
        )
    )


@router.delete("/users/{user_id}/subject", status_code=204, summary="Unbind a subject", responses=problems(403, 404))
async def unbind(context: Context, user_id: UUID) -> None:
    """Ends what the user's subject proves, at once, however long its JWTs are still good for; for admins."""
    await context.write(lambda session, caller: unbind_subject(session, caller, user_id))


@router.get("/users/{user_id}/quota", summary="Show a user's quota", responses=problems(404))
async def quota(context: Context, user_id: UUID) -> QuotaResponse:
    """What a user that you may see stores, and may store."""
    default = context.state.registry.quota_bytes
    return await context.read(
        lambda session, caller: QuotaResponse.model_validate(read_quota(session, caller, user_id, default))
    )


@router.put("/users/{user_id}/quota", summary="Set a user's quota", responses=problems(403, 404))
async def allow(context: Context, user_id: UUID, told: QuotaRequest) -> QuotaResponse:
    """Says what a user may store, for admins; what is stored already stays."""
    default = context.state.registry.quota_bytes

    def work(session: Session, caller: Caller) -> QuotaResponse:
        set_quota(session, caller, user_id, told.quota_bytes)
        return QuotaResponse.model_validate(read_quota(session, caller, user_id, default))

    return await context.write(work)
