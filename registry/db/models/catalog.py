"""Tasks, sources, shards, samples, and the tombstones of forgotten samples."""

from datetime import datetime
from typing import Any, get_args
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from alacarte.api.literals import Composition, Weighting
from registry.db.models.base import Base, is_one_of

COMPOSITIONS: tuple[Composition, ...] = get_args(Composition)
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


class Task(Base):
    """A label space on one backbone; its sources can be composed."""

    __tablename__ = "tasks"
    __table_args__ = (
        CheckConstraint(is_one_of("composition", COMPOSITIONS), name="composition"),
        CheckConstraint(is_one_of("weighting", WEIGHTINGS), name="weighting"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    backbone: Mapped[str]  # its name in timm
    size: Mapped[int | None]  # pixels; None: the backbone's default
    identity: Mapped[str | None]  # of the backbone; set by the first prompt, and required of every other
    labels: Mapped[list[str] | None]  # None: the labels of its sources
    composition: Mapped[str]
    weighting: Mapped[str]
    recipe: Mapped[dict[str, Any]]  # overrides of the trainer's defaults
    created_at: Mapped[datetime]


class Source(Base):
    """A data owner's named collection within a task: the unit of granting and forgetting.

    Once its erasure is requested it has an erasure_id and no name, and nobody sees it any more.
    """

    __tablename__ = "sources"
    __table_args__ = (
        UniqueConstraint("task_id", "name"),
        CheckConstraint("(name IS NULL) = (erasure_id IS NOT NULL)", name="named_unless_forgotten"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    task_id: Mapped[UUID] = mapped_column(ForeignKey("tasks.id"))
    owner_id: Mapped[UUID | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), index=True)
    name: Mapped[str | None]
    key: Mapped[bytes]  # secret; of the shard assignment and of the tombstones
    erasure_id: Mapped[UUID | None]
    created_at: Mapped[datetime]


class Shard(Base):
    """A random part of a source, the unit of training. A shard whose generation has no prompt is work to be leased."""

    __tablename__ = "shards"
    __table_args__ = (
        UniqueConstraint("source_id", "number"),
        CheckConstraint("generation >= 1", name="generation"),
        CheckConstraint(
            "(lease_id IS NULL) = (worker IS NULL) AND (lease_id IS NULL) = (expires_at IS NULL)", name="lease"
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    source_id: Mapped[UUID] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"))
    number: Mapped[int]  # within its source, from 0
    generation: Mapped[int]  # incremented when a sample is forgotten
    seed: Mapped[int]  # of its training; the same in every generation
    is_remote: Mapped[bool]  # its prompt is trained elsewhere, and there are no pictures here
    erasure_id: Mapped[UUID | None]  # set while the whole shard is being forgotten

    priority: Mapped[int]  # higher is trained earlier
    attempts: Mapped[int]  # at this generation
    not_before: Mapped[datetime | None]  # back-off after a failure
    error: Mapped[str | None]  # of the last attempt that failed
    is_paused: Mapped[bool]  # cancelled by a user: not trained until it is resumed

    lease_id: Mapped[UUID | None] = mapped_column(unique=True)
    worker: Mapped[str | None]
    expires_at: Mapped[datetime | None]
    progress: Mapped[float | None]  # of the running attempt, 0 to 1


class Sample(Base):
    """One labelled picture of a source, identified by the digest of its bytes."""

    __tablename__ = "samples"
    __table_args__ = (Index(None, "shard_id", "digest"),)

    source_id: Mapped[UUID] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    shard_id: Mapped[UUID] = mapped_column(ForeignKey("shards.id", ondelete="CASCADE"))
    label: Mapped[str]
    name: Mapped[str]  # of the uploaded file
    size_bytes: Mapped[int]
    added_at: Mapped[datetime]


class Tombstone(Base):
    """A keyed hash of a forgotten sample's digest, which recognises the same picture when it is uploaded again."""

    __tablename__ = "tombstones"
    __table_args__ = (ForeignKeyConstraint(["source_id"], ["sources.id"], ondelete="CASCADE"),)

    source_id: Mapped[UUID] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(primary_key=True)
    erasure_id: Mapped[UUID]
    created_at: Mapped[datetime]
