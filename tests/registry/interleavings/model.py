"""A random walk over a registry and over a plain Python model of it, which must agree after every step."""

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

from sqlalchemy import select, update

from registry import failpoints
from registry.access.caller import OPERATOR
from registry.access.grants import grant_right, revoke_right
from registry.access.tokens import issue_token, parse_token
from registry.access.usable_prompts import read_usable_prompts
from registry.access.users import create_user
from registry.catalog.tasks import create_task
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.erasure.request import forget_sample, forget_shard, forget_source
from registry.erasure.runner import run_erasures
from registry.errors import DatasetRejected, LeaseLost, NotFound
from registry.ingest.upload import IngestResult, add_samples, upload_source
from registry.registry import Registry
from registry.storage.keys import sample_key
from registry.training.lease import Lease
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_next_shard
from tests.registry.conftest import picture
from tests.registry.interleavings.paused import PausedCall, pause_at_failpoint

UPLOAD_POINTS = ("upload: claimed", "upload: half the objects", "upload: objects written", "upload: committed")
PUBLISH_POINTS = ("publish: object written", "publish: committed")
METADATA = PublishedMetadata(identity="1d" * 32, labels=("cat",), samples=1, extra={})
USERS = ("ann", "bob")
COMMITTED_UPLOAD, COMMITTED_PUBLISHING = UPLOAD_POINTS[-1], PUBLISH_POINTS[-1]


@dataclass
class ModelShard:
    """The expected samples and generation of a shard, and whether it has a prompt."""

    samples: set[str]
    generation: int = 1
    is_trained: bool = False


@dataclass
class ModelSource:
    """The expected owner, shards, forgotten samples and users of a source."""

    owner: str | None
    shards: dict[UUID, ModelShard] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)

    @property
    def samples(self) -> set[str]:
        return set().union(*(shard.samples for shard in self.shards.values()))


@dataclass(frozen=True)
class Upload:
    """An upload in progress; a committed one is in the model already."""

    paused: PausedCall[IngestResult]
    source: UUID | None  # to which samples are added; None: a new one
    name: str
    owner: str | None
    digests: frozenset[str]
    is_committed: bool


@dataclass(frozen=True)
class Publishing:
    """A publish call in progress; a committed one is in the model already."""

    paused: PausedCall[object]
    lease: Lease
    is_committed: bool


class RandomWalk:
    """Random steps, of which uploads and publish calls pause half-way while other steps run.

    After every step the registry is compared with the model, and the invariants are checked. `history` lists the steps.
    """

    def __init__(self, registry: Registry, rng: Random) -> None:
        self.registry, self.rng = registry, rng
        self.folder = Path(tempfile.mkdtemp())
        self.history: list[str] = []
        self.model: dict[UUID, ModelSource] = {}
        self.gone: dict[UUID, UUID] = {}  # forgotten sources, and their erasures
        self.uploads: list[Upload] = []
        self.leases: list[Lease] = []
        self.publishings: list[Publishing] = []
        self.leased: dict[UUID, UUID] = {}  # by shard: the lease that may publish
        self.tokens: dict[str, str] = {}
        self.users: dict[str, UUID] = {}
        self.archives = 0
        with registry.database.write_transaction() as session:
            self.task = create_task(session, OPERATOR, "animals", backbone="vit_tiny_patch16_224").id
            for name in USERS:
                self.users[name] = create_user(session, OPERATOR, name, "owner").id
                self.tokens[name] = issue_token(session, OPERATOR, self.users[name]).text

    def run(self, steps: int) -> None:
        """Run so many steps, and then finish what is still in progress."""
        failpoints.on_hit = pause_at_failpoint
        try:
            for _ in range(steps):
                (step,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
                self.history.append(step.__name__)
                step(self)
                self.check()
            while self.uploads or self.publishings:
                self.finish_upload()
                self.finish_publishing()
                self.check()
        finally:
            failpoints.on_hit = None
            self.registry.database.close()
            shutil.rmtree(self.folder)

    # Uploads

    def begin_upload(self) -> None:
        path, digests = self._pack()
        owner, point = self.rng.choice([None, *USERS]), self.rng.choice(UPLOAD_POINTS)
        name, owner_id = path.stem, None if owner is None else self.users[owner]
        paused = PausedCall(
            lambda: upload_source(self.registry, OPERATOR, self.task, name, path, owner_id=owner_id, shards=2), point
        )
        self._start(Upload(paused, None, name, owner, digests, is_committed=point == COMMITTED_UPLOAD))

    def begin_addition(self) -> None:
        if (source := self._any_source()) is None:
            return
        path, digests = self._pack()
        point = self.rng.choice(UPLOAD_POINTS)
        paused = PausedCall(lambda: add_samples(self.registry, OPERATOR, source, path, shards=2), point)
        upload = Upload(paused, source, path.stem, None, digests, is_committed=point == COMMITTED_UPLOAD)
        if paused.has_ended:  # refused before it paused
            self._finish_upload(upload)
        else:
            self._start(upload)

    def finish_upload(self) -> None:
        if self.uploads:
            self._finish_upload(self.uploads.pop(self.rng.randrange(len(self.uploads))))

    def _finish_upload(self, upload: Upload) -> None:
        try:
            upload.paused.finish()
        except (NotFound, LeaseLost):  # its source was forgotten meanwhile
            assert upload.source is not None
            assert upload.source not in self.model
            self.history.append("an upload lost its source")
        except DatasetRejected:  # nothing of it is new, or some of it was forgotten
            assert upload.source is not None
            known = self.model.get(upload.source)
            assert known is None or upload.digests & known.forgotten or upload.digests <= known.samples
            self.history.append("an upload was refused")
        else:
            if not upload.is_committed:
                self._add_to_model(upload)

    # Training

    def lease(self) -> None:
        lease = lease_next_shard(self.registry, "worker")
        if lease is None:
            # Every untrained shard is leased.
            untrained = [shard_id for (_, shard_id), shard in self._shards() if not shard.is_trained]
            assert set(untrained) <= self.leased.keys()
            return
        shard = self.model[lease.source_id].shards[lease.shard_id]
        assert not shard.is_trained
        assert lease.shard_id not in self.leased
        assert lease.generation == shard.generation
        assert {sample.digest for sample in lease.samples} == shard.samples
        self.leased[lease.shard_id] = lease.id
        self.leases.append(lease)

    def begin_publishing(self) -> None:
        if not self.leases:
            return
        lease = self.leases.pop(self.rng.randrange(len(self.leases)))
        point = self.rng.choice(PUBLISH_POINTS)
        paused: PausedCall[object] = PausedCall(lambda: publish(self.registry, lease, lease.id.bytes, METADATA), point)
        is_committed = point == COMMITTED_PUBLISHING and not paused.has_ended
        if is_committed:
            self._mark_published(lease)
        publishing = Publishing(paused, lease, is_committed)
        if paused.has_ended:  # refused before it paused
            self._finish_publish(publishing)
        else:
            self.publishings.append(publishing)

    def finish_publishing(self) -> None:
        if self.publishings:
            self._finish_publish(self.publishings.pop(self.rng.randrange(len(self.publishings))))

    def _finish_publish(self, publishing: Publishing) -> None:
        try:
            publishing.paused.finish()
        except LeaseLost:
            assert not self._is_current(publishing.lease)
            assert not publishing.is_committed
            assert not list(self.registry.objects.list_all(publishing.lease.prompt_key))
            self.history.append("a publishing was refused")
        else:
            if not publishing.is_committed:
                self._mark_published(publishing.lease)

    def expire_all_leases(self) -> None:
        with self.registry.database.write_transaction() as session:
            session.execute(update(Shard).where(Shard.lease_id.is_not(None)).values(expires_at=seconds_from_now(-1)))
        self.leased.clear()

    # Rights

    def grant_use(self) -> None:
        if (source := self._any_source()) is None:
            return
        user = self.rng.choice(USERS)
        try:
            with self.registry.database.write_transaction() as session:
                grant_right(session, OPERATOR, self.users[user], source, "use")
        except NotFound:
            assert source not in self.model
        else:
            self.model[source].users.add(user)

    def revoke_use(self) -> None:
        if (source := self._any_source()) is None:
            return
        user = self.rng.choice(USERS)
        is_granted = source in self.model and user in self.model[source].users
        try:
            with self.registry.database.write_transaction() as session:
                revoke_right(session, OPERATOR, self.users[user], source, "use")
        except NotFound:
            assert not is_granted
        else:
            assert is_granted
            self.model[source].users.remove(user)

    # Forgetting

    def forget_all(self) -> None:
        if (source := self._any_source()) is None:
            return
        erasure = forget_source(self.registry, OPERATOR, source).id
        assert self.gone.setdefault(source, erasure) == erasure  # a repeated request returns the same erasure
        for shard in self.model.pop(source, ModelSource(None)).shards:
            self.leased.pop(shard, None)

    def forget_one_shard(self) -> None:
        if not (everything := list(self._shards())):
            return
        (source, shard_id), shard = self.rng.choice(everything)
        forget_shard(self.registry, OPERATOR, source, shard_id)
        self.model[source].forgotten |= shard.samples
        del self.model[source].shards[shard_id]
        self.leased.pop(shard_id, None)

    def forget_one_sample(self) -> None:
        if not (everything := list(self._shards())):
            return
        (source, shard_id), shard = self.rng.choice(everything)
        digest = self.rng.choice(sorted(shard.samples))
        forget_sample(self.registry, OPERATOR, source, digest)
        self.model[source].forgotten.add(digest)
        shard.samples.remove(digest)
        shard.generation, shard.is_trained = shard.generation + 1, False
        self.leased.pop(shard_id, None)
        if not shard.samples:
            del self.model[source].shards[shard_id]

    def run_erasures_once(self) -> None:
        run_erasures(self.registry)

    def check(self) -> None:
        """Check the invariants."""
        self.check_usable_prompts()
        self.check_objects()

    # Invariants

    def check_usable_prompts(self) -> None:
        for user in USERS:
            usable = read_usable_prompts(self.registry.database, parse_token(self.tokens[user]), task=self.task)
            mine = {
                source: expected
                for source, expected in self.model.items()
                if user == expected.owner or user in expected.users
            }
            assert set(usable.sources) == set(mine)
            assert {(prompt.shard_id, prompt.generation) for prompt in usable.prompts} == {
                (shard_id, shard.generation)
                for expected in mine.values()
                for shard_id, shard in expected.shards.items()
                if shard.is_trained
            }

    def check_objects(self) -> None:
        stored = {item.key for item in self.registry.objects.list_objects("sources/")}
        with self.registry.database.read_transaction() as session:
            named = set(session.scalars(select(Prompt.key)))
            for sample in session.scalars(select(Sample).join(Shard).where(Shard.erasure_id.is_(None))):
                if sample.source_id in self.model:
                    named.add(sample_key(sample.source_id, sample.shard_id, sample.digest))
        assert named <= stored

    def _shards(self) -> Iterator[tuple[tuple[UUID, UUID], ModelShard]]:
        for source, expected in sorted(self.model.items()):
            for shard_id, shard in sorted(expected.shards.items()):
                yield (source, shard_id), shard

    def _any_source(self) -> UUID | None:
        """Return a source, mostly one that exists."""
        sources = sorted(self.model) * 3 + list(self.gone)[-1:]
        return self.rng.choice(sources) if sources else None

    def _pack(self) -> tuple[Path, frozenset[str]]:
        pictures = self.rng.sample(range(10), self.rng.randrange(2, 6))
        self.archives += 1
        path = self.folder / f"source {self.archives}.zip"
        bodies = [picture(number) for number in sorted(pictures)]
        with zipfile.ZipFile(path, "w") as archive:
            for number, body in enumerate(bodies):
                archive.writestr(f"cat/{number}.png", body)
        return path, frozenset(hashlib.sha256(body).hexdigest() for body in bodies)

    def _start(self, upload: Upload) -> None:
        if upload.is_committed:
            self._add_to_model(upload)
        self.uploads.append(upload)

    def _add_to_model(self, upload: Upload) -> None:
        """Add a committed upload to the model, with the shards that the registry chose."""
        with self.registry.database.read_transaction() as session:
            source = upload.source or session.scalars(select(Source.id).where(Source.name == upload.name)).one()
            expected = self.model.setdefault(source, ModelSource(upload.owner))
            rows = session.execute(select(Sample.shard_id, Sample.digest).where(Sample.source_id == source)).all()
        new = {digest for shard, digest in rows if shard not in expected.shards}
        # Samples that were in the source when the upload was checked, and forgotten afterwards, stay out.
        assert new == upload.digests - expected.samples - expected.forgotten
        for shard, digest in rows:
            if digest in new:
                expected.shards.setdefault(shard, ModelShard(set())).samples.add(digest)

    def _is_current(self, lease: Lease) -> bool:
        shard = self.model.get(lease.source_id, ModelSource(None)).shards.get(lease.shard_id)
        return (
            shard is not None and shard.generation == lease.generation and self.leased.get(lease.shard_id) == lease.id
        )

    def _mark_published(self, lease: Lease) -> None:
        assert self._is_current(lease)
        self.model[lease.source_id].shards[lease.shard_id].is_trained = True
        self.leased.pop(lease.shard_id)


# The relative frequency of each step.
WEIGHTS = {
    RandomWalk.begin_upload: 2,
    RandomWalk.begin_addition: 4,
    RandomWalk.finish_upload: 7,
    RandomWalk.lease: 7,
    RandomWalk.begin_publishing: 7,
    RandomWalk.finish_publishing: 6,
    RandomWalk.expire_all_leases: 1,
    RandomWalk.grant_use: 2,
    RandomWalk.revoke_use: 1,
    RandomWalk.forget_one_sample: 3,
    RandomWalk.forget_one_shard: 1,
    RandomWalk.forget_all: 1,
    RandomWalk.run_erasures_once: 1,
}
