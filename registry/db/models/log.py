"""The append-only log, in which each entry has the hash of the entry before it, and the keys that sign receipts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models.base import Base


class LogEntry(Base):
    """One action. It holds ids and counts, never names or data, because it is never erased."""

    __tablename__ = "log_entries"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    actor: Mapped[UUID | None]  # None: the operator, or the system itself
    action: Mapped[str]
    subject: Mapped[dict[str, Any]]
    previous: Mapped[str]
    hash: Mapped[str]


class LogHead(Base):
    """The last entry's number and hash: the one row that every append locks, and that reveals a truncated log."""

    __tablename__ = "log_head"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int]
    hash: Mapped[str]


class SigningKey(Base):
    """A public key whose private key signs receipts."""

    __tablename__ = "signing_keys"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    public: Mapped[str]  # PEM
    added_at: Mapped[datetime]
