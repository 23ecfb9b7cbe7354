"""Users, groups, tokens and grants as documents."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from registry.access.oidc_subjects import MAX_ISSUER_LENGTH, MAX_SUBJECT_LENGTH
from registry.access.quotas import MAX_QUOTA_BYTES
from registry.access.tokens import MAX_LIFETIME
from registry.db.models.users import Right, Role
from service.schemas.base import MOMENT_EXAMPLE, UUID_EXAMPLE, Asked, Told


class UserToMake(Asked):
    """A new user or group."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "clinic-a", "role": "owner"}})

    name: str = Field(description="A name that no user has yet.")
    role: Role = Field(default="predictor", description="What they may do at all; rights to sources come by grants.")
    is_group: bool = Field(default=False, description="A group holds grants for its members, and has no tokens.")


class UserTold(Told):
    """A user or a group."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": UUID_EXAMPLE,
                "name": "clinic-a",
                "role": "owner",
                "is_group": False,
                "created_at": MOMENT_EXAMPLE,
                "issuer": None,
                "subject": None,
                "quota_bytes": None,
            }
        }
    )

    id: UUID
    name: str
    role: Role
    is_group: bool
    created_at: datetime
    issuer: str | None = Field(description="Who vouches for them elsewhere, if somebody does.")
    subject: str | None = Field(description="As the issuer calls them.")
    quota_bytes: int | None = Field(description="What they may store; null: what the default says.")


class SubjectToBind(Asked):
    """Whom an issuer vouches for."""

    model_config = ConfigDict(json_schema_extra={"example": {"subject": "248289761001"}})

    subject: str = Field(
        min_length=1, max_length=MAX_SUBJECT_LENGTH, description="As the issuer's JWTs have it in `sub`."
    )
    issuer: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ISSUER_LENGTH,
        description="As its JWTs have it in `iss`; the one that this service believes if none is given.",
    )


class QuotaToSet(Asked):
    """What a user may store."""

    model_config = ConfigDict(json_schema_extra={"example": {"quota_bytes": 10737418240}})

    quota_bytes: int | None = Field(ge=0, le=MAX_QUOTA_BYTES, description="Null: what the default says.")


class QuotaTold(Told):
    """What a user stores and may store."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"used_bytes": 1048576, "quota_bytes": 107374182400, "is_default": True}}
    )

    used_bytes: int = Field(description="Pictures of their sources, and prompts that were sent to them.")
    quota_bytes: int | None = Field(description="Null: as much as there is room for.")
    is_default: bool = Field(description="Whether nothing else was said of this user.")


class TokenToIssue(Asked):
    """A new token."""

    model_config = ConfigDict(json_schema_extra={"example": {"note": "the scanner", "lifetime_s": 2592000}})

    user: UUID | None = Field(default=None, description="Whose token it is; your own if none is given.")
    note: str = Field(default="", description="What it is for.")
    lifetime_s: float | None = Field(
        default=None,
        gt=0,
        le=MAX_LIFETIME.total_seconds(),
        description="After so many seconds it ends by itself.",
    )


class TokenTold(Told):
    """A token, without what proves it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": UUID_EXAMPLE,
                "user_id": UUID_EXAMPLE,
                "prefix": "abcdefghijkl",
                "note": "the scanner",
                "created_at": MOMENT_EXAMPLE,
                "expires_at": None,
            }
        }
    )

    id: UUID
    user_id: UUID
    prefix: str = Field(description="The public part of the token, by which it can be told from others.")
    note: str
    created_at: datetime
    expires_at: datetime | None


class TokenIssued(TokenTold):
    """A new token with the text that proves it, which is shown this once."""

    text: str = Field(description="Send it as `Authorization: Bearer …`; nobody can show it again.")


class GrantToGive(Asked):
    """One right of one user or group to one source."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"user": UUID_EXAMPLE, "source": UUID_EXAMPLE, "right": "use"}}
    )

    user: UUID = Field(description="A user or a group.")
    source: UUID
    right: Right = Field(default="use", description="To use it for predictions, to manage it, or to have it forgotten.")


class GrantTold(Told):
    """A grant."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": UUID_EXAMPLE,
                "user_id": UUID_EXAMPLE,
                "source_id": UUID_EXAMPLE,
                "right": "use",
                "granted_by": None,
                "granted_at": MOMENT_EXAMPLE,
            }
        }
    )

    id: UUID
    user_id: UUID
    source_id: UUID
    right: Right
    granted_by: UUID | None
    granted_at: datetime
