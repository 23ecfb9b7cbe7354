"""kill -9 at every failpoint: accepted uploads are complete, others leave nothing, and forgotten data is gone."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import func, select

from registry import failpoints
from registry.access.caller import OPERATOR
from registry.catalog.sources import find_source
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import Prompt
from registry.db.models.users import Grant
from registry.db.models.write_claims import WriteClaim
from registry.erasure.request import forget_source
from registry.erasure.runner import finish_erasure
from registry.erasure.verify import verify_receipt
from registry.ingest.upload import IngestResult, upload_source
from registry.registry import Registry
from registry.storage.keys import sample_key
from registry.training.publish import publish
from registry.training.queue import lease_shard
from tests.registry.crash.child import METADATA, PROMPT
from tests.registry.crash.conftest import Kill, ListKeys, clean_up, expire_everything, write_archive

UPLOAD_POINTS, PUBLISH_POINTS, ERASURE_POINTS = (
    [point for point in failpoints.FAILPOINTS if point.startswith(f"{action}: ")]
    for action in ("upload", "publish", "erasure")
)
FindBytes = Callable[..., list[tuple[str, bytes]]]


def test_every_failpoint_is_covered_here() -> None:
    assert sorted(UPLOAD_POINTS + PUBLISH_POINTS + ERASURE_POINTS) == sorted(failpoints.FAILPOINTS)
    assert min(len(UPLOAD_POINTS), len(PUBLISH_POINTS), len(ERASURE_POINTS)) >= 2


def counts(registry: Registry) -> dict[str, int]:
    with registry.database.read_transaction() as session:
        return {
            table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0
            for table in (Source, Shard, Sample, Prompt, Grant, WriteClaim)
        }


def scratch_folders(registry: Registry) -> list[str]:
    return sorted(path.name for path in registry.scratch.folder.glob("*") if path.name != "scratch-id")


def bodies_of(registry: Registry, source: UUID) -> set[bytes]:
    """Return every sample's bytes, read as training reads them."""
    with registry.database.read_transaction() as session:
        samples = session.scalars(select(Sample).where(Sample.source_id == source)).all()
    return {registry.objects.read(sample_key(source, one.shard_id, one.digest), one.digest) for one in samples}


def train_all(registry: Registry) -> int:
    published = 0
    while True:
        with lease_shard(registry, "live worker") as work:
            if work is None:
                return published
            publish(registry, work[0], PROMPT + work[0].id.bytes, METADATA)
            published += 1


@pytest.mark.parametrize("point", UPLOAD_POINTS)
def test_a_killed_upload_is_there_as_a_whole_or_not_at_all(
    point: str, registry: Registry, task_id: UUID, kill: Kill, stored_keys: ListKeys, tmp_path: Path, search: FindBytes
) -> None:
    bodies = write_archive(tmp_path / "pictures.zip", seed=1)

    kill("upload", point, task_id, "lent", tmp_path / "pictures.zip")

    if point == "upload: committed":
        with registry.database.read_transaction() as session:
            source = find_source(session, OPERATOR, task_id, "lent").id
        assert bodies_of(registry, source) == set(bodies.values())
        clean_up(registry)
        assert bodies_of(registry, source) == set(bodies.values())
        assert len(stored_keys()) == len(bodies)
    else:
        assert {name: count for name, count in counts(registry).items() if count} == {"write_claims": 1}
        clean_up(registry)
        assert stored_keys() == []
        assert search(*bodies.values()) == []
        # The same upload works now.
        result = upload_source(registry, OPERATOR, task_id, "lent", tmp_path / "pictures.zip", shards=2)
        assert bodies_of(registry, result.source_id) == set(bodies.values())
    assert counts(registry)["write_claims"] == 0
    assert scratch_folders(registry) == []


@pytest.mark.parametrize("point", UPLOAD_POINTS)
def test_a_source_forgotten_after_a_killed_addition_leaves_no_byte(
    point: str, registry: Registry, task_id: UUID, kill: Kill, stored_keys: ListKeys, tmp_path: Path, search: FindBytes
) -> None:
    bodies = write_archive(tmp_path / "pictures.zip", seed=1) | write_archive(tmp_path / "more.zip", seed=2)
    source = upload_source(registry, OPERATOR, task_id, "lent", tmp_path / "pictures.zip").source_id
    kill("add_pictures", point, source, tmp_path / "more.zip")
    assert len(bodies_of(registry, source)) == (24 if point == "upload: committed" else 12)

    _forget_and_finish(registry, source)

    assert search(*bodies.values(), b"secret-1", b"secret-2", *_digests(bodies)) == []
    assert stored_keys() == []


@pytest.mark.parametrize("point", PUBLISH_POINTS)
def test_a_shard_whose_worker_was_killed_is_published_once_in_the_end(
    point: str, registry: Registry, task_id: UUID, kill: Kill, stored_keys: ListKeys, tmp_path: Path
) -> None:
    write_archive(tmp_path / "pictures.zip", seed=1)
    result = upload_source(registry, OPERATOR, task_id, "lent", tmp_path / "pictures.zip", shards=2)

    kill("train", point)

    assert counts(registry)["prompts"] == (1 if point == "publish: committed" else 0)
    clean_up(registry)
    train_all(registry)
    assert counts(registry)["prompts"] == len(result.shards)
    assert len([key for key in stored_keys() if "/prompts/" in key]) == len(result.shards)
    assert counts(registry)["write_claims"] == 0
    assert scratch_folders(registry) == []


@pytest.mark.parametrize("point", PUBLISH_POINTS)
def test_a_source_forgotten_after_its_worker_was_killed_leaves_no_byte(
    point: str, registry: Registry, task_id: UUID, kill: Kill, stored_keys: ListKeys, tmp_path: Path, search: FindBytes
) -> None:
    bodies = write_archive(tmp_path / "pictures.zip", seed=1)
    source = upload_source(registry, OPERATOR, task_id, "lent", tmp_path / "pictures.zip", shards=2).source_id
    kill("train", point)

    _forget_and_finish(registry, source)

    assert search(*bodies.values(), PROMPT, b"secret-1", *_digests(bodies)) == []
    assert stored_keys() == []


@pytest.mark.parametrize("scope", ["source", "shard", "sample"])
@pytest.mark.parametrize("point", ERASURE_POINTS)
def test_a_killed_erasure_has_stopped_serving_and_completes_later(
    point: str,
    scope: str,
    registry: Registry,
    task_id: UUID,
    kill: Kill,
    stored_keys: ListKeys,
    tmp_path: Path,
    search: FindBytes,
) -> None:
    bodies = write_archive(tmp_path / "pictures.zip", seed=1)
    write_archive(tmp_path / "other.zip", seed=3)
    forgotten = upload_source(registry, OPERATOR, task_id, "lent", tmp_path / "pictures.zip", shards=2)
    other = upload_source(registry, OPERATOR, task_id, "other", tmp_path / "other.zip")
    train_all(registry)
    shard, sample = _first_shard_and_sample(registry, forgotten)
    gone = _forgotten_bodies(registry, scope, forgotten, shard, sample, bodies)
    before = [key for key in stored_keys() if str(other.source_id) in key]
    scope_arguments = (str(shard) if scope == "shard" else "", sample if scope == "sample" else "")

    kill("forget", point, forgotten.source_id, *scope_arguments)

    with registry.database.read_transaction() as session:
        serving = session.scalars(select(Prompt.shard_id).where(Prompt.source_id == forgotten.source_id)).all()
        assert shard not in serving
        assert scope != "source" or serving == []
        erasure = session.scalars(select(Erasure)).one()
    expire_everything(registry)
    finished = finish_erasure(registry, erasure.id)
    assert finished.completed_at is not None
    assert finished.receipt is not None
    verification = verify_receipt(registry, finished.receipt)
    assert [check for check in verification.checks if not check.ok] == []
    left = stored_keys()
    assert [key for key in left if any(key.startswith(prefix) for prefix in finished.receipt["prefixes"])] == []
    assert [key for key in left if str(other.source_id) in key] == before
    assert search(*gone) == []
    if scope == "sample":
        train_all(registry)
        with registry.database.read_transaction() as session:
            assert session.scalars(select(Prompt.generation).where(Prompt.shard_id == shard)).all() == [2]


def _forget_and_finish(registry: Registry, source: UUID) -> None:
    erasure = forget_source(registry, OPERATOR, source)
    expire_everything(registry)
    assert finish_erasure(registry, erasure.id).completed_at is not None
    assert counts(registry) == dict.fromkeys(counts(registry), 0)
    assert scratch_folders(registry) == []


def _first_shard_and_sample(registry: Registry, result: IngestResult) -> tuple[UUID, str]:
    """Return a shard with more than one sample, and one of its samples."""
    with registry.database.read_transaction() as session:
        many = select(Sample.shard_id).where(Sample.source_id == result.source_id)
        shard = session.scalars(many.group_by(Sample.shard_id).having(func.count() > 1)).first()
        assert shard is not None
        return shard, session.scalars(select(Sample.digest).where(Sample.shard_id == shard)).first() or ""


def _forgotten_bodies(
    registry: Registry, scope: str, result: IngestResult, shard: UUID, sample: str, bodies: dict[str, bytes]
) -> list[bytes]:
    with registry.database.read_transaction() as session:
        of_shard = set(session.scalars(select(Sample.digest).where(Sample.shard_id == shard)))
    is_forgotten = {"source": lambda _: True, "shard": of_shard.__contains__, "sample": sample.__eq__}[scope]
    return [body for body in bodies.values() if is_forgotten(hashlib.sha256(body).hexdigest())]


def _digests(bodies: dict[str, bytes]) -> list[bytes]:
    """Return the digests as text, as SQLite stores them."""
    return [hashlib.sha256(body).hexdigest().encode() for body in bodies.values()]
