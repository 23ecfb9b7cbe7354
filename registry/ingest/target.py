"""Where an upload goes: into a source of its own, or into one that is there; both refuse early and again at the end."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.rights import require_right
from registry.catalog.sources import insert_source, precheck_new_source
from registry.db.models.catalog import Source, Task


@dataclass(frozen=True)
class TargetSnapshot:
    """What an upload builds on."""

    key: bytes  # of the split into shards
    labels: frozenset[str] | None  # the only ones that the task allows, if it says
    source: Source | None  # as it was at the beginning; None: there is none yet
    owner_id: UUID | None  # who has room for it, or not


class UploadTarget(Protocol):
    """A source, there or not yet."""

    @property
    def id(self) -> UUID:
        """The id of the source."""

    @property
    def caller(self) -> Caller:
        """On whose behalf."""

    @property
    def readmit(self) -> bool:
        """Whether pictures may come in that were forgotten from it."""

    @property
    def action(self) -> str:
        """What the log calls an upload to it."""

    def approach(self, session: Session) -> TargetSnapshot:
        """Refuses whatever can be refused before a byte is read; locks the source, if there is one."""

    def arrive(self, session: Session) -> Source:
        """The source, locked or made just now, if the caller still may and it still is."""


@dataclass(frozen=True)
class NewSource:
    """A source that comes into being with its first pictures."""

    id: UUID
    key: bytes
    caller: Caller
    task_id: UUID
    name: str
    owner_id: UUID | None
    readmit: bool = False
    action: str = "source.uploaded"

    def approach(self, session: Session) -> TargetSnapshot:
        """Refuses callers who may not, unknown tasks and owners, and names that are taken."""
        task = precheck_new_source(session, self.caller, self.task_id, self.name, self.owner_id)
        return TargetSnapshot(self.key, _labels_of(task), None, self.owner_id or self.caller.user_id)

    def arrive(self, session: Session) -> Source:
        """The row of the source; Conflict if another of that name was faster."""
        return insert_source(
            session, self.caller, self.task_id, self.name, self.owner_id, source_id=self.id, key=self.key
        )


@dataclass(frozen=True)
class ExistingSource:
    """A source that gets more pictures."""

    id: UUID
    caller: Caller
    readmit: bool
    action: str = "samples.added"

    def approach(self, session: Session) -> TargetSnapshot:
        """Refuses callers who may not; bringing back what was forgotten takes the right to have it forgotten."""
        source = self.arrive(session)
        return TargetSnapshot(source.key, _labels_of(session.get_one(Task, source.task_id)), source, source.owner_id)

    def arrive(self, session: Session) -> Source:
        """The source, locked."""
        if self.readmit:
            require_right(session, self.caller, "forget", self.id)
        return require_right(session, self.caller, "manage", self.id)


def _labels_of(task: Task) -> frozenset[str] | None:
    return None if task.labels is None else frozenset(task.labels)
