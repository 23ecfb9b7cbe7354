"""Who holds bytes of a source outside the rows: writers, workers, and the memory of replicas."""

from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models.base import Base, is_one_of

Purpose = Literal["upload", "train"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


class WriteClaim(Base):
    """A process that may have files in scratch, or objects that no row names yet, of one source.

    It is written before the first byte and removed after the last one is gone or has a row, so that
    forgetting knows whom to wait for, and what to clear up after the dead.
    """

    __tablename__ = "write_claims"
    __table_args__ = (CheckConstraint(is_one_of("purpose", PURPOSES), name="purpose"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    purpose: Mapped[str]
    # No foreign keys: an upload holds a source that has no row yet, a late worker one that has none any more.
    source_id: Mapped[UUID] = mapped_column(index=True)
    shard_id: Mapped[UUID | None]
    process: Mapped[str]  # host and process, for a person to find
    scratch_id: Mapped[UUID | None]  # of its scratch files; None: it has none (any more)
    prefixes: Mapped[list[str]]  # of its objects; empty: it has none (any more)
    started_at: Mapped[datetime]
    expires_at: Mapped[datetime]  # its heartbeat moves it; afterwards the holder counts as dead


class Replica(Base):
    """A process that keeps prompts in memory, and up to which line of the log it has let go of the forgotten."""

    __tablename__ = "replicas"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    epoch: Mapped[int]
    expires_at: Mapped[datetime]
