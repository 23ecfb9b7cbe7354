"""Users, tokens and grants as the service tells them."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class User:
    """A user or a group."""

    id: str
    name: str
    role: str
    is_group: bool
    created_at: datetime
    issuer: str | None = None  # who vouches for them elsewhere
    subject: str | None = None
    quota_bytes: int | None = None  # None: what the service's default says


@dataclass(frozen=True)
class Quota:
    """What a user stores and may store."""

    used_bytes: int
    quota_bytes: int | None  # None: as much as there is room for
    is_default: bool


@dataclass(frozen=True)
class Token:
    """A token, without what proves it."""

    id: str
    user_id: str
    prefix: str
    note: str
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True)
class IssuedToken(Token):
    """A new token with the text that proves it, which nobody can show again."""

    text: str = field(repr=False)


@dataclass(frozen=True)
class Grant:
    """One right of one user or group to one source."""

    id: str
    user_id: str
    source_id: str
    right: str
    granted_by: str | None
    granted_at: datetime
