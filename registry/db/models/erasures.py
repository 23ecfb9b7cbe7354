"""Requests to forget, their steps and receipts, and the keys that sign."""

from datetime import datetime
from typing import Any, get_args
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from alacarte.api.literals import ErasureScope
from registry.db.models.base import Base, is_one_of

SCOPES: tuple[ErasureScope, ...] = get_args(ErasureScope)


class Erasure(Base):
    """A request to forget. It outlives what it removed, and holds ids and digests of it, never data."""

    __tablename__ = "erasures"
    __table_args__ = (
        CheckConstraint(is_one_of("scope", SCOPES), name="scope"),
        Index(None, "completed_at", "not_before"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    scope: Mapped[str]
    task_id: Mapped[UUID]
    source_id: Mapped[UUID] = mapped_column(index=True)
    shard_id: Mapped[UUID | None]
    sample: Mapped[str | None]  # its digest
    prefixes: Mapped[list[str]]  # of the objects to remove
    write_claims: Mapped[list[str]]  # ids of those who held bytes of it when it began
    requested_by: Mapped[UUID | None]
    requested_at: Mapped[datetime]
    epoch: Mapped[int] = mapped_column(
        index=True
    )  # the line of the log that began it: replicas report up to which they have let go
    not_before: Mapped[datetime]  # whoever works on it moves this ahead, and so does back-off
    completed_at: Mapped[datetime | None]
    receipt: Mapped[dict[str, Any] | None]


class ErasureStep(Base):
    """One step of an erasure: done once verified by looking."""

    __tablename__ = "erasure_steps"

    erasure_id: Mapped[UUID] = mapped_column(ForeignKey("erasures.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    attempts: Mapped[int]
    error: Mapped[str | None]  # why it is not done yet
    found: Mapped[dict[str, Any]]  # counts and digests of what it removed, over all attempts
    done_at: Mapped[datetime | None]


class SigningKey(Base):
    """The public half of a key that signs receipts here."""

    __tablename__ = "signing_keys"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    public: Mapped[str]  # PEM
    added_at: Mapped[datetime]
