"""Prompts, and the releases that pin them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models.base import Base


class Prompt(Base):
    """What the current generation of a shard taught the backbone; the row is the right to be served."""

    __tablename__ = "prompts"
    __table_args__ = (Index(None, "task_id", "source_id"), Index(None, "source_id"))

    id: Mapped[UUID] = mapped_column(primary_key=True)  # of the lease or write claim under which it was published
    shard_id: Mapped[UUID] = mapped_column(ForeignKey("shards.id", ondelete="CASCADE"), unique=True)
    source_id: Mapped[UUID] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"))
    task_id: Mapped[UUID] = mapped_column(ForeignKey("tasks.id"))
    generation: Mapped[int]
    key: Mapped[str]  # of its object
    digest: Mapped[str]  # of its object's bytes
    size_bytes: Mapped[int]
    labels: Mapped[list[str]]
    samples: Mapped[int]
    artifact_metadata: Mapped[dict[str, Any]]  # architecture, size, seed and settings of the artifact
    worker: Mapped[str]
    published_at: Mapped[datetime]


class Release(Base):
    """A named, pinned set of prompts of a task."""

    __tablename__ = "releases"
    __table_args__ = (UniqueConstraint("task_id", "name"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    task_id: Mapped[UUID] = mapped_column(ForeignKey("tasks.id"))
    name: Mapped[str]
    created_by: Mapped[UUID | None]
    created_at: Mapped[datetime]


class ReleasePrompt(Base):
    """One prompt that a release pins."""

    __tablename__ = "release_prompts"

    release_id: Mapped[UUID] = mapped_column(ForeignKey("releases.id", ondelete="CASCADE"), primary_key=True)
    prompt_id: Mapped[UUID] = mapped_column(ForeignKey("prompts.id", ondelete="CASCADE"), primary_key=True, index=True)


class ReleaseLoss(Base):
    """A prompt that was removed from a release by an erasure."""

    __tablename__ = "release_losses"

    release_id: Mapped[UUID] = mapped_column(ForeignKey("releases.id", ondelete="CASCADE"), primary_key=True)
    prompt_id: Mapped[UUID] = mapped_column(primary_key=True)
    source_id: Mapped[UUID]
    shard_id: Mapped[UUID]
    erasure_id: Mapped[UUID]
    lost_at: Mapped[datetime]
