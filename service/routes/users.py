"""`/users`: users, groups and their members, OpenID Connect subjects, and quotas."""

from uuid import UUID

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from alacarte.api.base import PageResponse
from alacarte.api.users import QuotaRequest, QuotaResponse, SubjectRequest, UserCreate, UserResponse
from registry.access import oidc_subjects, quotas, users
from registry.access.caller import Caller
from registry.errors import Invalid
from service.http.openapi import located, problems
from service.http.request_context import Context
from service.routes.parameters import Paging

router = APIRouter(tags=["users"])
UserPage = PageResponse[UserResponse]


@router.get("/users", summary="List users")
async def list_users(context: Context, page: Paging) -> UserPage:
    """List the users and groups that you may see, oldest first: all for admins, else yourself and your groups."""
    return await context.read(
        lambda session, caller: UserPage.model_validate(users.list_users(session, caller, page.after, page.limit))
    )


@router.post("/users", status_code=201, summary="Create a user or group", responses=located(201) | problems(403, 409))
async def create_user(context: Context, body: UserCreate, response: Response) -> UserResponse:
    """Create a user, or a group, which holds grants for its members. Admins only."""
    created = await context.write(
        lambda session, caller: UserResponse.model_validate(
            users.create_user(session, caller, body.name, body.role, is_group=body.is_group)
        )
    )
    response.headers["Location"] = f"/users/{created.id}"
    return created


@router.get("/users/me", summary="Get yourself")
async def get_current_user(context: Context) -> UserResponse:
    """Return the user of the token."""
    return await get_user(context, context.user_id)


@router.get("/users/{user_id}", summary="Get a user", responses=problems(404))
async def get_user(context: Context, user_id: UUID) -> UserResponse:
    """Return a user or group that you may see."""
    return await context.read(
        lambda session, caller: UserResponse.model_validate(users.find_user(session, caller, user_id))
    )


@router.delete("/users/{user_id}", status_code=204, summary="Delete a user", responses=problems(403, 404, 409))
async def delete_user(context: Context, user_id: UUID) -> None:
    """Delete a user with their tokens, grants and memberships; their sources stay, without an owner. Admins only."""
    await context.write(lambda session, caller: users.remove_user(session, caller, user_id))


@router.get("/users/{user_id}/groups", summary="List a user's groups", responses=problems(404))
async def list_groups(context: Context, user_id: UUID, page: Paging) -> UserPage:
    """List the groups of a user, for admins and for the user."""
    return await context.read(
        lambda session, caller: UserPage.model_validate(
            users.list_groups(session, caller, user_id, page.after, page.limit)
        )
    )


@router.get("/users/{group_id}/members", summary="List a group's members", responses=problems(403, 404))
async def list_members(context: Context, group_id: UUID, page: Paging) -> UserPage:
    """List the members of a group. Admins only."""
    return await context.read(
        lambda session, caller: UserPage.model_validate(
            users.list_members(session, caller, group_id, page.after, page.limit)
        )
    )


@router.put(
    "/users/{group_id}/members/{user_id}", status_code=204, summary="Add a member", responses=problems(403, 404)
)
async def add_member(context: Context, group_id: UUID, user_id: UUID) -> None:
    """Add a user to a group; the user then has the group's grants. Admins only."""
    await context.write(lambda session, caller: users.add_member(session, caller, group_id, user_id))


@router.delete(
    "/users/{group_id}/members/{user_id}", status_code=204, summary="Remove a member", responses=problems(403, 404)
)
async def remove_member(context: Context, group_id: UUID, user_id: UUID) -> None:
    """Remove a user from a group, at once. Admins only."""
    await context.write(lambda session, caller: users.remove_member(session, caller, group_id, user_id))


@router.put("/users/{user_id}/subject", summary="Bind a subject", responses=problems(403, 404, 409))
async def bind_subject(context: Context, user_id: UUID, body: SubjectRequest) -> UserResponse:
    """Accept the JWTs of an OpenID Connect subject for this user, instead of any subject before. Admins only."""
    issuer = body.issuer or context.state.settings.oidc_issuer
    if issuer is None:
        raise Invalid("this service has no OpenID Connect issuer: name one, or set ALACARTE_OIDC_ISSUER")
    return await context.write(
        lambda session, caller: UserResponse.model_validate(
            oidc_subjects.bind_subject(session, caller, user_id, issuer, body.subject)
        )
    )


@router.delete("/users/{user_id}/subject", status_code=204, summary="Unbind a subject", responses=problems(403, 404))
async def unbind_subject(context: Context, user_id: UUID) -> None:
    """Stop accepting JWTs for this user, at once, even if they have not expired. Admins only."""
    await context.write(lambda session, caller: oidc_subjects.unbind_subject(session, caller, user_id))


@router.get("/users/{user_id}/quota", summary="Get a user's quota", responses=problems(404))
async def get_quota(context: Context, user_id: UUID) -> QuotaResponse:
    """Return how much a user that you may see stores and may store."""
    return await context.read(lambda session, caller: _read_quota(context, session, caller, user_id))


@router.put("/users/{user_id}/quota", summary="Set a user's quota", responses=problems(403, 404))
async def set_quota(context: Context, user_id: UUID, body: QuotaRequest) -> QuotaResponse:
    """Set how much a user may store; what is already stored stays. Admins only."""

    def work(session: Session, caller: Caller) -> QuotaResponse:
        quotas.set_quota(session, caller, user_id, body.quota_bytes)
        return _read_quota(context, session, caller, user_id)

    return await context.write(work)


def _read_quota(context: Context, session: Session, caller: Caller, user_id: UUID) -> QuotaResponse:
    default_bytes = context.state.registry.default_quota_bytes
    return QuotaResponse.model_validate(quotas.read_quota(session, caller, user_id, default_bytes))
