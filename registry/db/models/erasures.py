"""Requests to forget, their steps and receipts, and the replicas that have to evict."""

from datetime import datetime
from typing import Any, get_args
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from alacarte.api.literals import ErasureScope
from registry.db.models.base import Base, is_one_of

SCOPES: tuple[ErasureScope, ...] = get_args(ErasureScope)


class Erasure(Base):
    """A request to forget. It stays afterwards, and holds ids and digests of what it removed, never data."""

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
    write_claims: Mapped[list[str]]  # ids of the write claims on it when it was requested
    requested_by: Mapped[UUID | None]
    requested_at: Mapped[datetime]
    epoch: Mapped[int] = mapped_column(index=True)  # the number of its log entry; replicas report which they reached
    not_before: Mapped[datetime]  # set by the runner that works on it, and by back-off
    completed_at: Mapped[datetime | None]
    receipt: Mapped[dict[str, Any] | None]


class ErasureStep(Base):
    """One step of an erasure; done once a check has verified it."""

    __tablename__ = "erasure_steps"

    erasure_id: Mapped[UUID] = mapped_column(ForeignKey("erasures.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    attempts: Mapped[int]
    error: Mapped[str | None]  # why it is not done yet
    found: Mapped[dict[str, Any]]  # counts and digests of what it removed, over all attempts
    done_at: Mapped[datetime | None]


class Replica(Base):
    """A process of the service that caches prompts, and the epoch up to which it has evicted forgotten ones."""

    __tablename__ = "replicas"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    epoch: Mapped[int]
    expires_at: Mapped[datetime]
