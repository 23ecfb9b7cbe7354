"""Uploads of one owner to one task, and checks of everything that an upload can leave behind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import delete, func, select, update

from alacarte.api.literals import Right, Role
from registry.access.caller import Caller
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source, Tombstone
from registry.db.models.log import LogEntry
from registry.db.models.write_claims import WriteClaim
from registry.ids import new_id
from registry.ingest.tombstones import tombstone_hash
from registry.ingest.upload import IngestResult, add_samples, upload_source
from registry.registry import Registry
from registry.storage.keys import sample_key
from tests.registry.factories import make_grant, make_task, make_user

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder

AtFailpoint = Callable[..., None]


class Uploader:
    """Uploads of one owner to one task."""

    def __init__(self, registry: Registry, builder: DatasetBuilder, labels: list[str] | None = None) -> None:
        self.registry = registry
        self.builder = builder
        self._numbers = count()
        with registry.database.write_transaction() as session:
            self.task_id = make_task(session, labels=labels).id
            self.owner_id = make_user(session, role="owner").id
            self.owner = Caller(self.owner_id, "owner")

    def user(self, role: Role = "predictor", *rights: Right, source_id: UUID | None = None) -> Caller:
        """Create a user with these rights to the source."""
        with self.registry.database.write_transaction() as session:
            user = make_user(session, role=role)
            for right in rights:
                assert source_id is not None
                make_grant(session, user.id, source_id, right)
            return Caller(user.id, role)

    def digest(self, number: int) -> str:
        """Return the digest of the picture of this number."""
        return hashlib.sha256(self.builder.picture(number)).hexdigest()

    def pictures(self, numbers: Iterable[int], label: str = "cat") -> Path:
        """Write a zip of tiny pictures; the same number is the same picture."""
        files = {f"{label}/{number}.png": self.builder.picture(number) for number in numbers}
        return self.builder.zip(files, f"pictures-{next(self._numbers)}.zip")

    def upload(self, path: Path, name: str = "birds", **options: Any) -> IngestResult:  # Any: of `upload_source`
        return upload_source(self.registry, self.owner, self.task_id, name, path, **options)

    def add(self, source_id: UUID, path: Path, **options: Any) -> IngestResult:  # Any: of `add_samples`
        return add_samples(self.registry, self.owner, source_id, path, **options)

    def forget(self, source_id: UUID, number: int) -> None:
        """Change the rows that uploads read as forgetting the picture of this number does."""
        digest = self.digest(number)
        with self.registry.database.write_transaction() as session:
            mark = tombstone_hash(session.get_one(Source, source_id).key, digest)
            session.execute(delete(Sample).where(Sample.source_id == source_id, Sample.digest == digest))
            session.add(Tombstone(source_id=source_id, hash=mark, erasure_id=new_id(), created_at=now()))

    def forget_source(self) -> None:
        """Mark every source as being forgotten, and do nothing else."""
        with self.registry.database.write_transaction() as session:
            session.execute(update(Source).values(name=None, erasure_id=new_id()))

    def samples(self, source_id: UUID) -> list[Sample]:
        with self.registry.database.read_transaction() as session:
            own = select(Sample).where(Sample.source_id == source_id)
            return list(session.scalars(own.order_by(Sample.digest)))

    def shards(self, source_id: UUID) -> list[Shard]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Shard).where(Shard.source_id == source_id).order_by(Shard.number)))

    def log(self) -> list[LogEntry]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(LogEntry).order_by(LogEntry.number)))

    def rows(self) -> dict[str, int]:
        """Count the rows of every table that an upload writes."""
        with self.registry.database.read_transaction() as session:
            tables = (Source, Shard, Sample, Tombstone, LogEntry)
            return {
                table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0 for table in tables
            }

    def assert_tidy(self) -> None:
        """Assert that there is no claim and no scratch file, and an object for every sample and no other."""
        with self.registry.database.read_transaction() as session:
            assert session.scalars(select(WriteClaim)).all() == []
            samples = session.scalars(select(Sample)).all()
        expected = [(sample_key(s.source_id, s.shard_id, s.digest), s.size_bytes, "object") for s in samples]
        found = [(found.key, found.size_bytes, found.kind) for found in self.registry.objects.list_all("sources/")]
        assert sorted(found) == sorted(expected)
        assert {path.name for path in self.registry.scratch.folder.glob("*")} <= {"scratch-id"}
