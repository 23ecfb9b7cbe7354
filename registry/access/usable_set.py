"""What a caller may use for one question, at one moment."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from alacarte.api.literals import Composition, Weighting
from registry.access.caller import Caller
from registry.storage.keys import prompt_key


@dataclass(frozen=True)
class TaskConfig:
    """What composing prompts of a task takes."""

    id: UUID
    name: str
    backbone: str
    size: int | None
    identity: str | None
    composition: Composition
    weighting: Weighting
    labels: tuple[str, ...] | None


class UsablePrompt(NamedTuple):  # and no dataclass, which takes five times as long: each request makes hundreds, twice
    """A prompt that the caller may use, and where its numbers are."""

    id: UUID
    source_id: UUID
    shard_id: UUID
    generation: int
    digest: str
    size_bytes: int

    @property
    def key(self) -> str:
        """Where its bytes lie: told by the other columns, so that it need not come over the wire."""
        return prompt_key(self.source_id, self.shard_id, self.generation, self.id)


@dataclass(frozen=True)
class UsablePromptSet:
    """The caller, the task, and what in it is theirs to use."""

    caller: Caller
    task: TaskConfig
    prompts: tuple[UsablePrompt, ...]  # sorted by id
    sources: tuple[UUID, ...]  # sorted; also those that have no prompt (yet)
