"""The target of an upload: a new source or an existing one.

Everything that can refuse an upload before its archive is read is in `precheck`. It runs before the body of a request
is received and again when the upload is claimed. `acquire` checks the rights once more, with the source locked, in the
transaction that inserts the rows.
"""

import secrets
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.quotas import require_quota
from registry.access.source_rights import require_right
from registry.catalog.names import validate_name
from registry.catalog.sources import KEY_BYTES, insert_source, precheck_new_source
from registry.catalog.tasks import find_task
from registry.db.models.catalog import Source, Task
from registry.ids import new_id


@dataclass(frozen=True)
class TargetSnapshot:
    """The source and its task as they were at the precheck."""

    key: bytes  # of the split into shards
    labels: frozenset[str] | None  # the only labels that the task allows; None: any
    source: Source | None  # None: it does not exist yet
    owner_id: UUID | None  # whose quota counts


@dataclass(frozen=True)
class NewSource:
    """A source that is created together with its first pictures."""

    caller: Caller
    task_id: UUID
    name: str
    owner_id: UUID | None
    id: UUID = field(default_factory=new_id)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES))
    readmit: bool = False
    action: str = "source.uploaded"  # in the log

    def precheck(self, session: Session, quota_bytes: int | None) -> TargetSnapshot:
        """Refuse callers without the right, unknown tasks and owners, taken names, and owners without quota."""
        task = precheck_new_source(session, self.caller, self.task_id, self.name, self.owner_id)
        owner_id = self.owner_id or self.caller.user_id
        require_quota(session, owner_id, quota_bytes)
        return TargetSnapshot(self.key, _allowed_labels(task), None, owner_id)

    def acquire(self, session: Session) -> Source:
        """Insert the source; Conflict if another upload took the name meanwhile."""
        return insert_source(
            session, self.caller, self.task_id, self.name, self.owner_id, source_id=self.id, key=self.key
        )


@dataclass(frozen=True)
class ExistingSource:
    """A source that gets more pictures."""

    caller: Caller
    id: UUID
    readmit: bool  # whether pictures that were forgotten from the source may come back
    action: str = "samples.added"  # in the log

    def precheck(self, session: Session, quota_bytes: int | None) -> TargetSnapshot:
        """Refuse callers without the right, and owners without quota; lock the source."""
        source = self.acquire(session)
        require_quota(session, source.owner_id, quota_bytes)
        task = session.get_one(Task, source.task_id)
        return TargetSnapshot(source.key, _allowed_labels(task), source, source.owner_id)

    def acquire(self, session: Session) -> Source:
        """Lock the source; bringing back forgotten pictures takes the right to forget them."""
        if self.readmit:
            require_right(session, self.caller, "forget", self.id)
        return require_right(session, self.caller, "manage", self.id)


UploadTarget = NewSource | ExistingSource


def precheck_source_upload(
    session: Session, caller: Caller, task: str | UUID, name: str, owner_id: UUID | None, quota_bytes: int | None
) -> UUID:
    """Refuse a new source before its archive is read; return the id of its task."""
    task_id = find_task(session, task).id
    NewSource(caller, task_id, validate_name("source", name), owner_id).precheck(session, quota_bytes)
    return task_id


def precheck_samples_upload(
    session: Session, caller: Caller, source_id: UUID, quota_bytes: int | None, *, readmit: bool
) -> None:
    """Refuse more pictures for a source before their archive is read."""
    ExistingSource(caller, source_id, readmit).precheck(session, quota_bytes)


def _allowed_labels(task: Task) -> frozenset[str] | None:
    return None if task.labels is None else frozenset(task.labels)
