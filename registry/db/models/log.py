"""The append-only log of who did what, each line chained to the one before by its hash."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models.base import Base


class LogEntry(Base):
    """One act. It speaks of ids and counts, never of names or data, since it is never erased."""

    __tablename__ = "log_entries"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    actor: Mapped[UUID | None]  # None: the operator, or the system itself
    action: Mapped[str]
    subject: Mapped[dict[str, Any]]
    previous: Mapped[str]
    hash: Mapped[str]


class LogHead(Base):
    """The last line's number and hash: the one row that every append locks, and that shows a cut end."""

    __tablename__ = "log_head"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int]
    hash: Mapped[str]
