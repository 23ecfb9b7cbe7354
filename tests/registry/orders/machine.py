"""A registry beside a plain Python model of it: whatever is done in whichever order, the two agree."""

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)
from sqlalchemy import select, update

from registry import faults
from registry.callers import OPERATOR
from registry.erasures.begin import forget_sample, forget_shard, forget_source
from registry.erasures.running import run_erasures
from registry.errors import CollectionRefused, LeaseLost, NotFound
from registry.grants import grant, revoke
from registry.leasing import Lease
from registry.models.collections import Sample, Shard, Source
from registry.models.prompts import Prompt
from registry.moments import after
from registry.objects.keys import sample_key
from registry.publishing import PublishedFacts, publish
from registry.registry import Registry
from registry.rights import usable
from registry.tasks import create_task
from registry.tokens import issue_token
from registry.uploading.admit import Admission
from registry.uploading.upload import add_samples, upload_source
from registry.users import create_user
from registry.work import lease_work
from tests.registry.conftest import picture
from tests.registry.orders.paused import Paused, reach

UPLOAD_POINTS = ("upload: held", "upload: half the objects", "upload: objects written", "upload: committed")
PUBLISH_POINTS = ("publish: object written", "publish: committed")
FACTS = PublishedFacts(identity="1d" * 32, labels=("cat",), samples=1, facts={})
USERS = ("ann", "bob")
NOWHERE = UUID(int=0)  # no source, as rules find it that come too early
# How shards are split is chance, and hypothesis wants none: so every rule can always run, and may find nothing to do.
COMMITTED_UPLOAD, COMMITTED_PUBLISHING = UPLOAD_POINTS[-1], PUBLISH_POINTS[-1]
PICTURES = st.sets(st.integers(0, 9), min_size=2, max_size=5)


@dataclass
class ModelShard:
    """What a shard is: its samples, how often one was forgotten, and whether this generation has its prompt."""

    samples: set[str]
    generation: int = 1
    is_trained: bool = False


@dataclass
class ModelSource:
    """What a source is, and what was forgotten of it."""

    owner: str | None
    shards: dict[UUID, ModelShard] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)

    @property
    def samples(self) -> set[str]:
        return set().union(*(shard.samples for shard in self.shards.values()))


@dataclass(frozen=True)
class Upload:
    """An upload that is under way; one that is committed is in the model already."""

    paused: Paused[Admission]
    source: UUID | None  # that is extended; None: a new one
    name: str
    owner: str | None
    digests: frozenset[str]
    is_committed: bool


@dataclass(frozen=True)
class Publishing:
    """A prompt that is being published; one that is committed is in the model already."""

    paused: Paused[object]
    lease: Lease
    is_committed: bool


class Orders(RuleBasedStateMachine):
    """Uploads and publishing that stop half-way, and everything else in between."""

    sources = Bundle("sources")
    uploads = Bundle("uploads")
    leases = Bundle("leases")
    publishings = Bundle("publishings")

    make_registry: Callable[[], Registry]  # a fresh one; set by whoever runs the machine

    def __init__(self) -> None:
        super().__init__()
        self.registry = type(self).make_registry()
        self.folder = Path(tempfile.mkdtemp())
        self.model: dict[UUID, ModelSource] = {}
        self.tokens: dict[str, str] = {}
        self.users: dict[str, UUID] = {}
        self.archives = 0
        self.leased: dict[UUID, UUID] = {}  # by shard, the lease that may publish
        with self.registry.database.writing() as session:
            self.task = create_task(session, OPERATOR, "animals", backbone="vit_tiny_patch16_224").id
            for name in USERS:
                self.users[name] = create_user(session, OPERATOR, name, "owner").id
                self.tokens[name] = issue_token(session, OPERATOR, self.users[name]).text
        faults.on_reach = reach

    def teardown(self) -> None:
        faults.on_reach = None
        self.registry.database.close()
        shutil.rmtree(self.folder)

    # Uploads

    @rule(
        target=uploads, pictures=PICTURES, point=st.sampled_from(UPLOAD_POINTS), owner=st.sampled_from([None, *USERS])
    )
    def begin_upload(self, pictures: set[int], point: str, owner: str | None) -> Upload:
        path, digests = self._pack(pictures)
        name, owner_id = path.stem, None if owner is None else self.users[owner]
        paused = Paused(
            lambda: upload_source(self.registry, OPERATOR, self.task, name, path, owner_id=owner_id, shards=2), point
        )
        return self._begun(Upload(paused, None, name, owner, digests, is_committed=point == COMMITTED_UPLOAD))

    @rule(target=uploads, source=sources, pictures=PICTURES, point=st.sampled_from(UPLOAD_POINTS))
    def begin_addition(self, source: UUID, pictures: set[int], point: str) -> Upload | None:
        path, digests = self._pack(pictures)
        paused = Paused(lambda: add_samples(self.registry, OPERATOR, source, path, shards=2), point)
        upload = Upload(paused, source, path.stem, None, digests, is_committed=point == COMMITTED_UPLOAD)
        if paused.has_ended:  # refused at once
            self._finish(upload)
            return None
        return self._begun(upload)

    @rule(target=sources, upload=consumes(uploads))
    def finish_upload(self, upload: Upload | None) -> UUID:
        return NOWHERE if upload is None else self._finish(upload)

    def _finish(self, upload: Upload) -> UUID:
        try:
            admission = upload.paused.finish()
        except (NotFound, LeaseLost):  # its source went meanwhile
            assert upload.source is not None
            assert upload.source not in self.model
            return upload.source
        except CollectionRefused:  # nothing of it is new any more, or some of it was forgotten
            assert upload.source is not None
            known = self.model[upload.source]
            assert upload.digests & known.forgotten or upload.digests <= known.samples
            return upload.source
        if not upload.is_committed:
            self._adopt(upload)
        return admission.source_id

    # Training

    @rule(target=leases)
    def lease(self) -> Lease | None:
        lease = lease_work(self.registry, "worker")
        untrained = [shard for _, shard in self._shards() if not shard.is_trained]
        if lease is None:
            # All that is left is somebody's, who may still publish.
            assert len(untrained) <= len(self.leased)
            return None
        shard = self.model[lease.source_id].shards[lease.shard_id]
        assert not shard.is_trained
        assert lease.generation == shard.generation
        assert {sample.digest for sample in lease.samples} == shard.samples
        self.leased[lease.shard_id] = lease.id
        return lease

    @rule(target=publishings, lease=consumes(leases), point=st.sampled_from(PUBLISH_POINTS))
    def begin_publishing(self, lease: Lease | None, point: str) -> Publishing | None:
        if lease is None:
            return None
        paused: Paused[object] = Paused(lambda: publish(self.registry, lease, lease.id.bytes, FACTS), point)
        is_committed = point == COMMITTED_PUBLISHING and not paused.has_ended
        if is_committed:
            self._publish(lease)
        return Publishing(paused, lease, is_committed)

    @rule(publishing=consumes(publishings))
    def finish_publishing(self, publishing: Publishing | None) -> None:
        if publishing is None:
            return
        lease = publishing.lease
        try:
            publishing.paused.finish()
        except LeaseLost:
            assert not self._is_current(lease)
            assert not publishing.is_committed
        else:
            if not publishing.is_committed:
                self._publish(lease)

    @rule()
    def let_all_leases_run_out(self) -> None:
        with self.registry.database.writing() as session:
            session.execute(update(Shard).where(Shard.lease_id.is_not(None)).values(expires_at=after(-1)))
        self.leased.clear()

    # Rights

    @rule(source=sources, user=st.sampled_from(USERS))
    def grant_use(self, source: UUID, user: str) -> None:
        with self._expecting_source(source), self.registry.database.writing() as session:
            grant(session, OPERATOR, self.users[user], source, "use")
        if source in self.model:
            self.model[source].users.add(user)

    @rule(source=sources, user=st.sampled_from(USERS))
    def revoke_use(self, source: UUID, user: str) -> None:
        is_granted = source in self.model and user in self.model[source].users
        try:
            with self.registry.database.writing() as session:
                revoke(session, OPERATOR, self.users[user], source, "use")
        except NotFound:
            assert not is_granted
        else:
            assert is_granted
            self.model[source].users.remove(user)

    # Forgetting

    @rule(source=sources)
    def forget_all(self, source: UUID) -> None:
        with self._expecting_source(source):
            forget_source(self.registry, OPERATOR, source)
        self.model.pop(source, None)

    @rule(number=st.integers(0, 50))
    def forget_one_shard(self, number: int) -> None:
        if not (everything := list(self._shards())):
            return
        (source, shard_id), shard = everything[number % len(everything)]
        forget_shard(self.registry, OPERATOR, source, shard_id)
        self.model[source].forgotten |= shard.samples
        del self.model[source].shards[shard_id]

    @rule(number=st.integers(0, 50), which=st.integers(0, 50))
    def forget_one_sample(self, number: int, which: int) -> None:
        if not (everything := list(self._shards())):
            return
        (source, shard_id), shard = everything[number % len(everything)]
        digest = sorted(shard.samples)[which % len(shard.samples)]
        forget_sample(self.registry, OPERATOR, source, digest)
        self.model[source].forgotten.add(digest)
        shard.samples.remove(digest)
        shard.generation, shard.is_trained = shard.generation + 1, False
        self.leased.pop(shard_id, None)
        if not shard.samples:
            del self.model[source].shards[shard_id]

    @rule()
    def run_erasures_once(self) -> None:
        run_erasures(self.registry)

    # What always holds

    @invariant()
    def everybody_may_use_what_the_model_says(self) -> None:
        for user in USERS:
            found = usable(self.registry.database, self.tokens[user], task=self.task)
            mine = {source: facts for source, facts in self.model.items() if user == facts.owner or user in facts.users}
            assert set(found.sources) == set(mine)
            assert {(prompt.shard_id, prompt.generation) for prompt in found.prompts} == {
                (shard_id, shard.generation)
                for facts in mine.values()
                for shard_id, shard in facts.shards.items()
                if shard.is_trained
            }

    @invariant()
    def every_usable_prompt_and_every_sample_has_its_bytes(self) -> None:
        kept = {found.key for found in self.registry.objects.objects("")}
        with self.registry.database.reading() as session:
            named = set(session.scalars(select(Prompt.key)))
            for sample in session.scalars(select(Sample).join(Shard).where(Shard.erasure_id.is_(None))):
                if sample.source_id in self.model:
                    named.add(sample_key(sample.source_id, sample.shard_id, sample.digest))
        assert named <= kept

    def _shards(self) -> Iterator[tuple[tuple[UUID, UUID], ModelShard]]:
        for source, facts in sorted(self.model.items()):
            for shard_id, shard in sorted(facts.shards.items()):
                yield (source, shard_id), shard

    def _pack(self, pictures: set[int]) -> tuple[Path, frozenset[str]]:
        self.archives += 1
        path = self.folder / f"source {self.archives}.zip"
        bodies = [picture(number) for number in sorted(pictures)]
        with zipfile.ZipFile(path, "w") as archive:
            for number, body in enumerate(bodies):
                archive.writestr(f"cat/{number}.png", body)
        return path, frozenset(hashlib.sha256(body).hexdigest() for body in bodies)

    def _begun(self, upload: Upload) -> Upload:
        if upload.is_committed:
            self._adopt(upload)
        return upload

    def _adopt(self, upload: Upload) -> None:
        """Takes a committed upload into the model: which shard a sample fell into is the registry's to say."""
        with self.registry.database.reading() as session:
            source = upload.source or session.scalars(select(Source.id).where(Source.name == upload.name)).one()
            facts = self.model.setdefault(source, ModelSource(upload.owner))
            rows = session.execute(select(Sample.shard_id, Sample.digest).where(Sample.source_id == source)).all()
        new = {digest for shard, digest in rows if shard not in facts.shards}
        assert new == upload.digests - facts.samples
        assert not new & facts.forgotten
        for shard, digest in rows:
            if digest in new:
                facts.shards.setdefault(shard, ModelShard(set())).samples.add(digest)

    def _is_current(self, lease: Lease) -> bool:
        shard = self.model.get(lease.source_id, ModelSource(None)).shards.get(lease.shard_id)
        return (
            shard is not None and shard.generation == lease.generation and self.leased.get(lease.shard_id) == lease.id
        )

    def _publish(self, lease: Lease) -> None:
        assert self._is_current(lease)
        self.model[lease.source_id].shards[lease.shard_id].is_trained = True
        self.leased.pop(lease.shard_id)

    @contextmanager
    def _expecting_source(self, source: UUID) -> Iterator[None]:
        """The block succeeds if the model has the source, and finds none otherwise."""
        try:
            yield
        except NotFound:
            assert source not in self.model
        else:
            assert source in self.model
