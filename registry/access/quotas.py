"""Storage quotas of owners: checked before an upload is read, and again in the transaction that commits it."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_QUOTA_BYTES
from registry.access.caller import Caller, require_admin
from registry.access.users import find_user
from registry.db.locks import lock_user
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.db.models.users import User
from registry.errors import DomainError, Invalid
from registry.log import chain


class QuotaExceeded(DomainError):
    """The owner of a source has no quota left for the upload."""

    status = 413

    def __init__(self, used_bytes: int, quota_bytes: int, adding_bytes: int) -> None:
        more = f", and this needs {adding_bytes} more" if adding_bytes else ""
        super().__init__(
            f"the owner of the source uses {used_bytes} of {quota_bytes} bytes{more}: "
            "forget a source or pictures of one, or ask an admin for a larger quota"
        )


@dataclass(frozen=True)
class QuotaUsage:
    """What an owner stores, and how much they may store."""

    used_bytes: int
    quota_bytes: int | None  # None: no limit
    is_default: bool


def read_quota(session: Session, caller: Caller, user_id: UUID, default_bytes: int | None) -> QuotaUsage:
    """Return the quota and its usage of a user that the caller may see."""
    user = find_user(session, caller, user_id)
    return _quota_usage(session, user, default_bytes)


def set_quota(session: Session, caller: Caller, user_id: UUID, quota_bytes: int | None) -> None:
    """Set a user's quota; None restores the default. What is stored already stays."""
    require_admin(caller)
    if quota_bytes is not None and not 0 <= quota_bytes <= MAX_QUOTA_BYTES:
        raise Invalid(f"a quota is 0 to {MAX_QUOTA_BYTES} bytes, not {quota_bytes}")
    user = lock_user(session, user_id)
    if user.quota_bytes != quota_bytes:
        user.quota_bytes = quota_bytes
        session.flush()
        chain.append_entry(session, caller.user_id, "user.quota-set", user=user.id, bytes=quota_bytes)


def require_quota(session: Session, owner_id: UUID | None, default_bytes: int | None, adding_bytes: int = 0) -> None:
    """Raise QuotaExceeded if the owner has no room for `adding_bytes`, or for a single byte; reserve nothing."""
    user = None if owner_id is None else session.get(User, owner_id)
    if user is not None:  # sources without an owner have no quota
        quota = _quota_usage(session, user, default_bytes)
        if quota.quota_bytes is not None and quota.used_bytes + max(1, adding_bytes) > quota.quota_bytes:
            raise QuotaExceeded(quota.used_bytes, quota.quota_bytes, adding_bytes)


def reserve_quota(session: Session, owner_id: UUID | None, default_bytes: int | None, adding_bytes: int) -> None:
    """Check as `require_quota`, with the owner locked, so that concurrent uploads cannot exceed the quota together.

    Call it after the source is locked and before its rows are (see registry.db.locks).
    """
    if owner_id is not None:
        lock_user(session, owner_id)
        require_quota(session, owner_id, default_bytes, adding_bytes)


def _quota_usage(session: Session, user: User, default_bytes: int | None) -> QuotaUsage:
    """Count pictures and prompts from remote sites; prompts trained here and sources being forgotten do not count."""
    own = select(Source.id).where(Source.owner_id == user.id, Source.erasure_id.is_(None)).scalar_subquery()
    pictures = select(func.sum(Sample.size_bytes)).where(Sample.source_id.in_(own))
    remote_prompts = (
        select(func.sum(Prompt.size_bytes))
        .join(Shard, Shard.id == Prompt.shard_id)
        .where(Prompt.source_id.in_(own), Shard.is_remote)
    )
    used_bytes = int(session.scalar(pictures) or 0) + int(session.scalar(remote_prompts) or 0)
    is_default = user.quota_bytes is None
    return QuotaUsage(used_bytes, default_bytes if is_default else user.quota_bytes, is_default)
