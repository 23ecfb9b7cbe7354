"""Which processes may have bytes of a source that no row names."""

from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models.base import Base, is_one_of

Purpose = Literal["upload", "train"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


class WriteClaim(Base):
    """A process may have scratch files of a source, or objects of it that no row names yet.

    The claim is inserted before the first byte is written, and deleted after the last is gone or has a row. So an
    erasure knows which processes to wait for, and what to remove after dead ones.
    """

    __tablename__ = "write_claims"
    __table_args__ = (CheckConstraint(is_one_of("purpose", PURPOSES), name="purpose"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    purpose: Mapped[str]
    # No foreign keys: an upload claims a source that has no row yet, a late worker one that has none any more.
    source_id: Mapped[UUID] = mapped_column(index=True)
    shard_id: Mapped[UUID | None]
    process: Mapped[str]  # host:pid
    scratch_id: Mapped[UUID | None]  # of the scratch space with its files; None: no files
    prefixes: Mapped[list[str]]  # of its objects without rows; empty: none
    started_at: Mapped[datetime]
    expires_at: Mapped[datetime]  # extended by its heartbeat
