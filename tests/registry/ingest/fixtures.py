"""Uploads of one owner to one task, and checks of everything that an upload can leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import func, select

from registry.access.caller import Caller
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source, Tombstone
from registry.db.models.log import LogEntry
from registry.db.models.write_claims import WriteClaim
from registry.ingest.tombstones import tombstone_hash
from registry.ingest.upload import IngestResult, add_samples, upload_source
from registry.registry import Registry
from registry.storage.keys import sample_key
from tests.registry.factories import make_task, make_user

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder

# Takes a failpoint, and what to call when an upload hits it.
AtFailpoint = Callable[[str, Callable[[], None]], None]


class Uploader:
    """Uploads of one owner to one task."""

    def __init__(self, registry: Registry, builder: DatasetBuilder, labels: list[str] | None = None) -> None:
        self.registry = registry
        self.builder = builder
        self._numbers = count()
        with registry.database.write_transaction() as session:
            self.task_id = make_task(session, labels=labels).id
            self.owner = Caller(make_user(session, role="owner").id, "owner")

    def user(self, role: Any = "predictor") -> Caller:  # Any: a role
        with self.registry.database.write_transaction() as session:
            return Caller(make_user(session, role=role).id, role)

    def pictures(self, numbers: Iterable[int], label: str = "cat") -> Path:
        """Write a zip of tiny pictures; the same number is the same picture."""
        files = {f"{label}/{number}.png": self.builder.picture(number) for number in numbers}
        return self.builder.zip(files, f"pictures-{next(self._numbers)}.zip")

    def upload(self, path: Path, name: str = "birds", **options: Any) -> IngestResult:  # Any: of `upload_source`
        return upload_source(self.registry, self.owner, self.task_id, name, path, **options)

    def add(self, source_id: UUID, path: Path, **options: Any) -> IngestResult:  # Any: of `add_samples`
        return add_samples(self.registry, self.owner, source_id, path, **options)

    def forget(self, source_id: UUID, digest: str, erasure_id: UUID) -> None:
        """Change the rows that uploads read as forgetting a sample does."""
        with self.registry.database.write_transaction() as session:
            source = session.get_one(Source, source_id)
            sample = session.get(Sample, (source_id, digest))
            if sample is not None:
                session.delete(sample)
            session.add(
                Tombstone(
                    source_id=source_id,
                    hash=tombstone_hash(source.key, digest),
                    erasure_id=erasure_id,
                    created_at=now(),
                )
            )

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
