"""How much each owner may store: looked at before an upload is taken in, and again when it comes to count."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_QUOTA_BYTES
from registry.access.caller import Caller, require_admin
from registry.access.users import find_user
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.db.models.users import User
from registry.errors import DomainError, Invalid, NotFound
from registry.log import chain


class QuotaExceeded(DomainError):
    """The owner of a source has no room for what comes."""

    status = 413

    def __init__(self, used_bytes: int, quota_bytes: int, adding_bytes: int) -> None:
        more = f", and this needs {adding_bytes} more" if adding_bytes else ""
        super().__init__(
            f"the owner of the source stores {used_bytes} of the {quota_bytes} bytes that they may{more}: "
            "forget a source or pictures of one, or ask an admin for a larger quota"
        )


@dataclass(frozen=True)
class QuotaUsage:
    """What an owner stores and may store."""

    used_bytes: int
    quota_bytes: int | None  # None: as much as there is room for
    is_default: bool


def read_quota(session: Session, caller: Caller, user_id: UUID, default_bytes: int | None) -> QuotaUsage:
    """What a user that the caller may see stores and may store."""
    user = find_user(session, caller, user_id)
    return _quota_of(session, user, default_bytes)


def set_quota(session: Session, caller: Caller, user_id: UUID, quota_bytes: int | None) -> None:
    """Lets a user store so many bytes, or as many as the default says; what is stored already stays."""
    require_admin(caller)
    if quota_bytes is not None and not 0 <= quota_bytes <= MAX_QUOTA_BYTES:
        raise Invalid(f"a quota is 0 to {MAX_QUOTA_BYTES} bytes")
    user = _locked(session, user_id)
    if user is None:
        raise NotFound("user", user_id)
    if user.quota_bytes != quota_bytes:
        user.quota_bytes = quota_bytes
        session.flush()
        chain.append_entry(session, caller.user_id, "user.quota-set", user=user.id, bytes=quota_bytes)


def require_quota(session: Session, owner_id: UUID | None, default_bytes: int | None, adding_bytes: int = 0) -> None:
    """Refuses more bytes than the owner has room for, and anything at all if there is none; promises nothing."""
    user = None if owner_id is None else session.get(User, owner_id)
    if user is not None:  # what nobody owns, the operator has put there
        quota = _quota_of(session, user, default_bytes)
        if quota.quota_bytes is not None and quota.used_bytes + max(1, adding_bytes) > quota.quota_bytes:
            raise QuotaExceeded(quota.used_bytes, quota.quota_bytes, adding_bytes)


def reserve_quota(session: Session, owner_id: UUID | None, default_bytes: int | None, adding_bytes: int) -> None:
    """As `require_quota`, and until the transaction ends nobody else claims any for the owner.

    Call it with the source locked and before its rows: whoever keeps that order never waits in a circle.
    """
    if owner_id is not None:
        # Two uploads into two sources of one owner meet here, and the second sees what the first has added.
        _locked(session, owner_id)
        require_quota(session, owner_id, default_bytes, adding_bytes)


def _quota_of(session: Session, user: User, default_bytes: int | None) -> QuotaUsage:
    """Pictures, and prompts that were sent; what is trained here is ours, and what is being forgotten is gone."""
    own = select(Source.id).where(Source.owner_id == user.id, Source.erasure_id.is_(None)).scalar_subquery()
    pictures = select(func.sum(Sample.size_bytes)).where(Sample.source_id.in_(own))
    sent = (
        select(func.sum(Prompt.size_bytes))
        .join(Shard, Shard.id == Prompt.shard_id)
        .where(Prompt.source_id.in_(own), Shard.is_remote)
    )
    used_bytes = int(session.scalar(pictures) or 0) + int(session.scalar(sent) or 0)
    is_default = user.quota_bytes is None
    return QuotaUsage(used_bytes, default_bytes if is_default else user.quota_bytes, is_default)


def _locked(session: Session, user_id: UUID) -> User | None:
    one = select(User).where(User.id == user_id).with_for_update(key_share=True)
    return session.scalars(one, execution_options={"populate_existing": True}).one_or_none()
