"""Users, groups, memberships, tokens and grants."""

from datetime import datetime
from typing import get_args
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from alacarte.api.literals import Right, Role
from registry.db.models.base import Base, is_one_of

ROLES: tuple[Role, ...] = get_args(Role)
RIGHTS: tuple[Right, ...] = get_args(Right)


class User(Base):
    """A person or program with credentials; or a group, which holds grants for its members and has no credentials."""

    __tablename__ = "users"
    __table_args__ = (
        CheckConstraint(is_one_of("role", ROLES), name="role"),
        Index(None, "issuer", "subject", unique=True),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    is_group: Mapped[bool]
    created_at: Mapped[datetime]
    issuer: Mapped[str | None]  # the external OIDC issuer; set if and only if the subject is
    subject: Mapped[str | None]  # the issuer's id of the user
    quota_bytes: Mapped[int | None] = mapped_column(BigInteger)  # None: the installation's default


class Membership(Base):
    """A user is a member of a group."""

    __tablename__ = "memberships"

    group_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    member_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True)


class Token(Base):
    """A bearer token: found by its public prefix, verified by the hash of the whole text."""

    __tablename__ = "tokens"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    prefix: Mapped[str] = mapped_column(unique=True)
    hash: Mapped[str]
    note: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]


class Grant(Base):
    """One right of one user or group to one source."""

    __tablename__ = "grants"
    __table_args__ = (
        CheckConstraint(is_one_of('"right"', RIGHTS), name="right"),
        # In this order the index alone answers which sources a user may use.
        UniqueConstraint("user_id", "right", "source_id"),
        Index(None, "source_id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    source_id: Mapped[UUID] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"))
    right: Mapped[str]
    granted_by: Mapped[UUID | None]
    granted_at: Mapped[datetime]
