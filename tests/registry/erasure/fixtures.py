"""Sources with rows and real objects, and helpers that list what is left of them."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import insert, select

from registry import failpoints
from registry.access.caller import Caller
from registry.db.clock import now
from registry.db.models.catalog import Shard, Source
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import Prompt, Release, ReleasePrompt
from registry.erasure.request import forget_sample, forget_shard, forget_source
from registry.erasure.target import ErasureTarget, count_rows
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import s3
from registry.storage.folder import FolderStore
from registry.storage.keys import sample_key, shard_prefix, source_prefix
from registry.storage.store import ObjectStore, RemovedCount, StoreUnreachable
from tests.registry.factories import make_grant, make_prompt, make_sample, make_shard, make_source, make_task, make_user


@dataclass(frozen=True)
class SeededSource:
    """A source, its owner, and the digests of each shard's samples."""

    task: UUID
    source: UUID
    owner: Caller
    shards: dict[UUID, list[str]]
    release: UUID

    @property
    def first_shard(self) -> UUID:
        return next(iter(self.shards))

    @property
    def first_sample(self) -> str:
        return self.shards[self.first_shard][0]

    @property
    def target(self) -> ErasureTarget:
        return ErasureTarget(self.source, None, None, (source_prefix(self.source),))


def seed_source(registry: Registry, name: str | None = None, *, shards: int = 2, samples: int = 2) -> SeededSource:
    """Create a source with trained shards, a grant, and a release that pins its prompts."""
    with registry.database.write_transaction() as session:
        owner = make_user(session, role="owner")
        task = make_task(session)
        source = make_source(session, task, owner, name)
        make_grant(session, make_user(session).id, source.id, "use")
        release = Release(id=new_id(), task_id=task.id, name="pinned", created_at=now())
        session.add(release)
        session.flush()
        digests: dict[UUID, list[str]] = {}
        for _ in range(shards):
            shard = make_shard(session, source)
            digests[shard.id] = []
            for number in range(samples):
                body = f"picture {number} of {shard.id}".encode()
                made = make_sample(session, shard, body, label=f"label of {source.id}")
                digests[shard.id].append(made.digest)
                registry.objects.put(sample_key(source.id, shard.id, made.digest), body)
            body = f"prompt of {shard.id}".encode()
            prompt = make_prompt(session, shard)
            prompt.digest, prompt.size_bytes = hashlib.sha256(body).hexdigest(), len(body)
            registry.objects.put(prompt.key, body)
            session.flush()
            session.execute(insert(ReleasePrompt).values(release_id=release.id, prompt_id=prompt.id))
        return SeededSource(task.id, source.id, Caller(owner.id, "owner"), digests, release.id)


def count_target_rows(registry: Registry, target: ErasureTarget) -> dict[str, int]:
    with registry.database.read_transaction() as session:
        return count_rows(session, target)


def list_keys(registry: Registry, prefix: str = "sources/") -> list[str]:
    return sorted(found.key for found in registry.objects.list_all(prefix))


def list_shard_keys(registry: Registry, seeded: SeededSource, shard: UUID) -> list[str]:
    return list_keys(registry, shard_prefix(seeded.source, shard))


def first_sample_key(seeded: SeededSource) -> str:
    return sample_key(seeded.source, seeded.first_shard, seeded.first_sample)


def first_prompt_key(registry: Registry, seeded: SeededSource) -> str:
    return next(key for key in list_shard_keys(registry, seeded, seeded.first_shard) if "/prompts/" in key)


def list_served_shards(registry: Registry, seeded: SeededSource) -> list[UUID]:
    """Return the shards of the source whose prompts are served."""
    with registry.database.read_transaction() as session:
        return list(session.scalars(select(Prompt.shard_id).where(Prompt.source_id == seeded.source)))


FORGET: dict[str, Callable[[Registry, SeededSource], Erasure]] = {
    "source": lambda registry, seeded: forget_source(registry, seeded.owner, seeded.source),
    "shard": lambda registry, seeded: forget_shard(registry, seeded.owner, seeded.source, seeded.first_shard),
    "sample": lambda registry, seeded: forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample),
}


def read_shard(registry: Registry, shard: UUID) -> Shard | None:
    with registry.database.read_transaction() as session:
        return session.get(Shard, shard)


def read_source(registry: Registry, seeded: SeededSource) -> Source | None:
    with registry.database.read_transaction() as session:
        return session.get(Source, seeded.source)


class SimulatedKill(BaseException):
    """Stands for a kill; no code catches it."""


@contextmanager
def killed_at(point: str) -> Iterator[None]:
    """Raise SimulatedKill at the failpoint."""

    def die(reached: str) -> None:
        if reached == point:
            raise SimulatedKill(point)

    failpoints.on_hit = die
    try:
        yield
    finally:
        failpoints.on_hit = None


def die_during_store_check(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the store, and be killed before the check removes its test object."""

    def die(*_: object) -> None:
        raise SimulatedKill

    with monkeypatch.context() as killed, pytest.raises(SimulatedKill):
        killed.setattr(FolderStore, "remove", die)
        killed.setattr(s3, "delete_items", die)
        registry.objects.check()


class FailingStore:
    """A real store whose first removals fail."""

    def __init__(self, store: ObjectStore, failures: int) -> None:
        self._store = store
        self.failures = failures

    def __getattr__(self, name: str) -> Any:  # Any: whatever the real one has
        return getattr(self._store, name)

    def remove(self, prefix: str) -> RemovedCount:
        if self.failures:
            self.failures -= 1
            raise StoreUnreachable("the store does not answer")
        return self._store.remove(prefix)


def with_failing_store(registry: Registry, failures: int) -> Registry:
    return replace(registry, objects=cast(ObjectStore, FailingStore(registry.objects, failures)))
