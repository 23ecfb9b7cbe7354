"""Releases as the service tells them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Release:
    """A named, pinned set of prompts."""

    id: str
    task_id: str
    name: str
    created_by: str | None
    created_at: datetime


@dataclass(frozen=True)
class Member:
    """A prompt that a release pins."""

    prompt_id: str
    source_id: str
    shard_id: str
    digest: str


@dataclass(frozen=True)
class Loss:
    """A prompt that a release had pinned, and the erasure that took it."""

    prompt_id: str
    source_id: str
    shard_id: str
    erasure_id: str
    lost_at: datetime


@dataclass(frozen=True)
class Contents(Release):
    """A release with what it has and what it has lost, as far as you may see it."""

    members: tuple[Member, ...]
    losses: tuple[Loss, ...]
