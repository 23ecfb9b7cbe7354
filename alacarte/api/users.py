"""Users, groups, tokens, grants and quotas."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from alacarte.api.base import TIME_EXAMPLE, UUID_EXAMPLE, RequestModel, ResponseModel, example
from alacarte.api.limits import MAX_ISSUER_LENGTH, MAX_QUOTA_BYTES, MAX_SUBJECT_LENGTH, MAX_TOKEN_LIFETIME
from alacarte.api.literals import Right, Role


class UserCreate(RequestModel):
    """A new user or group."""

    model_config = example(name="clinic-a", role="owner")

    name: str = Field(description="A name that no user has yet.")
    role: Role = Field(default="predictor", description="What the user may do at all; grants give rights to sources.")
    is_group: bool = Field(default=False, description="A group holds grants for its members, and has no tokens.")


class UserResponse(ResponseModel):
    """A user or a group."""

    model_config = example(
        id=UUID_EXAMPLE,
        name="clinic-a",
        role="owner",
        is_group=False,
        created_at=TIME_EXAMPLE,
        issuer=None,
        subject=None,
        quota_bytes=None,
    )

    id: UUID
    name: str
    role: Role
    is_group: bool
    created_at: datetime
    issuer: str | None = Field(description="The OpenID Connect issuer whose JWTs are accepted for this user.")
    subject: str | None = Field(description="The user's `sub` at the issuer.")
    quota_bytes: int | None = Field(description="How much the user may store; null: the service's default.")


class SubjectRequest(RequestModel):
    """The OpenID Connect subject of a user."""

    model_config = example(subject="248289761001")

    subject: str = Field(min_length=1, max_length=MAX_SUBJECT_LENGTH, description="The claim `sub` of the user's JWTs.")
    issuer: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ISSUER_LENGTH,
        description="The claim `iss` of the user's JWTs; default: the issuer that this service is configured with.",
    )


class QuotaRequest(RequestModel):
    """How much a user may store."""

    model_config = example(quota_bytes=10737418240)

    quota_bytes: int | None = Field(ge=0, le=MAX_QUOTA_BYTES, description="Null: the service's default.")


class QuotaResponse(ResponseModel):
    """How much a user stores and may store."""

    model_config = example(used_bytes=1048576, quota_bytes=107374182400, is_default=True)

    used_bytes: int = Field(description="The pictures of the user's sources, and the prompts pushed to them.")
    quota_bytes: int | None = Field(description="Null: unlimited.")
    is_default: bool = Field(description="Whether this is the service's default.")


class TokenCreate(RequestModel):
    """A new token."""

    model_config = example(note="the scanner", lifetime_s=2592000)

    user: UUID | None = Field(default=None, description="The user of the token; default: you.")
    note: str = Field(default="", description="What the token is for.")
    lifetime_s: float | None = Field(
        default=None,
        gt=0,
        le=MAX_TOKEN_LIFETIME.total_seconds(),
        description="The token expires after this many seconds; default: never.",
    )


class TokenResponse(ResponseModel):
    """A token, without its secret."""

    model_config = example(
        id=UUID_EXAMPLE,
        user_id=UUID_EXAMPLE,
        prefix="abcdefghijkl",
        note="the scanner",
        created_at=TIME_EXAMPLE,
        expires_at=None,
    )

    id: UUID
    user_id: UUID
    prefix: str = Field(description="The public first part of the token.")
    note: str
    created_at: datetime
    expires_at: datetime | None


class IssuedTokenResponse(TokenResponse):
    """A new token with its text, which is shown only once."""

    text: str = Field(repr=False, description="Send it as `Authorization: Bearer …`; it cannot be shown again.")


class GrantCreate(RequestModel):
    """A right of a user or group to a source."""

    model_config = example(user=UUID_EXAMPLE, source=UUID_EXAMPLE, right="use")

    user: UUID = Field(description="A user or a group.")
    source: UUID
    right: Right = Field(default="use", description="To predict with the source, to manage it, or to forget it.")


class GrantResponse(ResponseModel):
    """A grant."""

    model_config = example(
        id=UUID_EXAMPLE,
        user_id=UUID_EXAMPLE,
        source_id=UUID_EXAMPLE,
        right="use",
        granted_by=None,
        granted_at=TIME_EXAMPLE,
    )

    id: UUID
    user_id: UUID
    source_id: UUID
    right: Right
    granted_by: UUID | None
    granted_at: datetime
