"""What the service answers, as frozen values; ids are texts, as they are in URLs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Scored:
    """A label, and how sure the set of sources is of it."""

    label: str
    score: float


@dataclass(frozen=True)
class PromptSays:
    """What one prompt said by itself, and how much it counted."""

    prompt: str
    shard: str
    weight: float
    labels: tuple[Scored, ...]


@dataclass(frozen=True)
class SourceSays:
    """What one source said by itself, and how much it counted."""

    source: str
    weight: float
    labels: tuple[Scored, ...]
    prompts: tuple[PromptSays, ...]


@dataclass(frozen=True)
class Prediction:
    """The answer to one picture, and what it rests on."""

    labels: tuple[Scored, ...]  # the best first
    task: str
    sources: tuple[str, ...]
    set_digest: str  # the same digest means the same prompts
    composition: str
    weighting: str
    explain: tuple[SourceSays, ...] | None = None

    @property
    def label(self) -> str:
        """The best label."""
        return self.labels[0].label

    @property
    def score(self) -> float:
        """How sure the set is of the best label."""
        return self.labels[0].score


@dataclass(frozen=True)
class Task:
    """A label space on one backbone."""

    id: str
    name: str
    backbone: str
    size: int | None
    identity: str | None  # of the backbone; the first prompt settles it
    labels: tuple[str, ...] | None
    composition: str
    weighting: str
    recipe: Mapping[str, Any]  # Any: texts, numbers and truths
    created_at: datetime


@dataclass(frozen=True)
class Source:
    """A source as lists show it."""

    id: str
    task_id: str
    name: str
    owner_id: str | None
    created_at: datetime
    samples: int
    shards: int
    trained: int  # of the shards, those that have their prompt


@dataclass(frozen=True)
class Shard:
    """One shard of a source, and how far its training has come."""

    id: str
    number: int
    generation: int
    samples: int
    size_bytes: int
    state: str
    progress: float  # 0 to 1
    attempts: int
    worker: str | None
    error: str | None
    not_before: datetime | None

    @property
    def is_served(self) -> bool:
        """Whether its prompt answers."""
        return self.state in ("trained", "remote")


@dataclass(frozen=True)
class SourceState:
    """One source as a whole."""

    id: str
    task_id: str
    name: str
    owner_id: str | None
    created_at: datetime
    rights: tuple[str, ...]  # of whoever asks
    labels: tuple[str, ...]
    samples: int
    size_bytes: int
    progress: float  # 0 to 1
    shards: tuple[Shard, ...]

    @property
    def is_trained(self) -> bool:
        """Whether every shard answers."""
        return all(shard.is_served for shard in self.shards)


@dataclass(frozen=True)
class Sample:
    """One labelled picture, named by the digest of its bytes."""

    digest: str
    shard_id: str
    label: str
    name: str
    size_bytes: int
    added_at: datetime


@dataclass(frozen=True)
class Refusal:
    """A file that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Admission:
    """What an upload brought; its training is done in the end."""

    source: str
    shards: tuple[str, ...]
    samples: int
    size_bytes: int
    refused: int
    refusals: tuple[Refusal, ...]  # the first of them


@dataclass(frozen=True)
class Training:
    """How many shards were stopped, or let go on."""

    shards: int


@dataclass(frozen=True)
class Prompt:
    """A prompt that was sent, and is served from now on."""

    id: str
    source_id: str
    shard_id: str
    generation: int
    digest: str
    size_bytes: int
    labels: tuple[str, ...]
    samples: int
    published_at: datetime


@dataclass(frozen=True)
class Step:
    """One step of an erasure: done once a look has shown it."""

    name: str
    attempts: int
    error: str | None  # what it waits for
    found: Mapping[str, Any]  # Any: counts and texts
    done_at: datetime | None


@dataclass(frozen=True)
class Erasure:
    """A request to forget, its steps, and its receipt once all is done."""

    id: str
    state: str
    scope: str
    task_id: str
    source_id: str
    shard_id: str | None
    sample: str | None
    requested_by: str | None
    requested_at: datetime
    completed_at: datetime | None
    steps: tuple[Step, ...]
    receipt: Mapping[str, Any] | None  # Any: a document, as it was signed


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Verdict:
    """Whether a receipt is genuine and everything it says is still so."""

    holds: bool
    checks: tuple[Check, ...]
