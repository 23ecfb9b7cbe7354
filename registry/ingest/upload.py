"""Uploads pictures, all or nothing: an upload has all its rows and objects, or it has left nothing anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from alacarte.api.limits import MAX_SHARDS
from alacarte.api.literals import UnreadablePolicy
from registry.access.caller import Caller
from registry.access.quotas import require_quota, reserve_quota
from registry.catalog.names import validate_name
from registry.catalog.shard_assignment import assign_shard
from registry.datasets.dataset import Dataset, LabelledPicture, SkippedFile
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits
from registry.datasets.loader import open_dataset
from registry.datasets.member_names import quote
from registry.errors import DatasetRejected, Invalid
from registry.failpoints import hit_failpoint
from registry.ids import new_id
from registry.ingest.claim import ClaimedUpload, claim_shards
from registry.ingest.deduplicate import NO_KNOWN_SAMPLES, deduplicate, find_known, require_new, sort_by_name
from registry.ingest.insert_rows import insert_samples
from registry.ingest.store_objects import ProgressCallback, store_samples
from registry.ingest.target import ExistingSource, NewSource, TargetSnapshot, UploadTarget
from registry.ingest.tombstones import remove_tombstones
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import sample_key
from registry.storage.ownership import require_own_store


@dataclass(frozen=True)
class UploadSpec:
    """What is uploaded, and how it is to be read."""

    path: Path
    shards: int
    limits: DatasetLimits
    within: str | None
    unreadable: UnreadablePolicy
    scratch: Path | None


@dataclass(frozen=True)
class IngestResult:
    """What was stored, and what was left out and why."""

    source_id: UUID
    shards: tuple[UUID, ...]  # the new ones, in the order of their numbers
    samples: int
    size_bytes: int
    skipped_files: tuple[SkippedFile, ...]  # sorted by name

    @property
    def skipped(self) -> int:
        """Return how many files were left out."""
        return len(self.skipped_files)


@dataclass(frozen=True)
class _Selection:
    """The pictures to store, the shard of each, and what is left out so far."""

    samples: tuple[LabelledPicture, ...]
    shard_by_digest: Mapping[str, UUID]
    readmitted: Mapping[str, UUID]  # forgotten pictures that may come back: the erasure of each, by digest
    skipped: tuple[SkippedFile, ...]


def upload_source(
    registry: Registry,
    caller: Caller,
    task_id: UUID,
    name: str,
    path: Path,
    *,
    shards: int = 1,
    owner_id: UUID | None = None,
    limits: DatasetLimits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: UnreadablePolicy = "refuse",
    report: ProgressCallback | None = None,
    scratch: Path | None = None,
) -> IngestResult:
    """Create a source from the pictures at the path, which belongs to the caller unless an admin names another owner.

    `scratch`: a scratch folder of this registry that already holds `path`, such as a received body. It is removed
    in the end, and forgetting the source waits for that.
    """
    target = NewSource(caller, task_id, validate_name("source", name), owner_id)
    return _ingest(registry, target, UploadSpec(path, shards, limits, within, unreadable, scratch), report)


def add_samples(
    registry: Registry,
    caller: Caller,
    source_id: UUID,
    path: Path,
    *,
    shards: int = 1,
    readmit: bool = False,
    limits: DatasetLimits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: UnreadablePolicy = "refuse",
    report: ProgressCallback | None = None,
    scratch: Path | None = None,
) -> IngestResult:
    """Add pictures to a source, in shards of their own; existing shards are not changed.

    Pictures that were forgotten come back only with `readmit`, which needs the right to forget. `scratch` as above.
    """
    target = ExistingSource(caller, source_id, readmit)
    return _ingest(registry, target, UploadSpec(path, shards, limits, within, unreadable, scratch), report)


def _ingest(
    registry: Registry, target: UploadTarget, spec: UploadSpec, report: ProgressCallback | None
) -> IngestResult:
    if not 1 <= spec.shards <= MAX_SHARDS:
        raise Invalid(f"an upload makes 1 to {MAX_SHARDS} shards, not {spec.shards}")
    require_own_store(registry.database, registry.objects)
    shards = [new_id() for _ in range(spec.shards)]
    with (
        claim_shards(
            registry,
            target.id,
            shards,
            lambda session: target.precheck(session, registry.default_quota_bytes),
            spec.scratch,
        ) as claim,
        open_dataset(
            spec.path, scratch=claim.scratch, limits=spec.limits, within=spec.within, unreadable=spec.unreadable
        ) as dataset,
    ):
        _check_labels_and_shards(dataset, spec, claim.target)
        selection = _select(registry, dataset, spec, claim.target, shards, readmit=target.readmit)
        _check_quota(registry, claim.target, selection)
        sizes = store_samples(
            registry.objects,
            selection.samples,
            lambda sample: sample_key(target.id, selection.shard_by_digest[sample.digest], sample.digest),
            claim.scratch,
            check=claim.check,
            report=report,
        )
        hit_failpoint("upload: objects written")
        result = _commit(registry, target, spec, claim, selection, sizes)
        hit_failpoint("upload: committed")
    return result


def _check_labels_and_shards(dataset: Dataset, spec: UploadSpec, snapshot: TargetSnapshot) -> None:
    if snapshot.labels is not None and (unknown := sorted(set(dataset.labels) - snapshot.labels)):
        names = ", ".join(quote(label) for label in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise DatasetRejected(f"the task does not have the labels {names}{more}: rename or remove them")
    if spec.shards > len(dataset.samples):
        raise Invalid(f"{len(dataset.samples)} pictures cannot make {spec.shards} shards: use fewer")


def _select(
    registry: Registry,
    dataset: Dataset,
    spec: UploadSpec,
    snapshot: TargetSnapshot,
    shards: Sequence[UUID],
    *,
    readmit: bool,
) -> _Selection:
    known = NO_KNOWN_SAMPLES
    if snapshot.source is not None:
        with registry.database.read_transaction() as session:
            known = find_known(session, snapshot.source, [sample.digest for sample in dataset.samples])
    readmitted = {digest: stone.erasure_id for digest, stone in known.tombstones.items()} if readmit else {}
    new = deduplicate(dataset.samples, known, readmitted=readmitted, unreadable=spec.unreadable)
    require_new(new)
    return _Selection(
        new.samples,
        {s.digest: shards[assign_shard(s.digest, snapshot.key, len(shards))] for s in new.samples},
        readmitted,
        dataset.skipped + new.skipped,
    )


def _check_quota(registry: Registry, snapshot: TargetSnapshot, selection: _Selection) -> None:
    """Refuse what exceeds the quota before anything is written; the commit checks it again."""
    size_bytes = sum(sample.path.stat().st_size for sample in selection.samples)
    with registry.database.read_transaction() as session:
        require_quota(session, snapshot.owner_id, registry.default_quota_bytes, size_bytes)


def _commit(
    registry: Registry,
    target: UploadTarget,
    spec: UploadSpec,
    claim: ClaimedUpload[TargetSnapshot],
    selection: _Selection,
    sizes: Mapping[str, int],
) -> IngestResult:
    """Insert the rows of all objects in one transaction; objects that are not new any more are removed first."""
    while True:
        with registry.database.write_transaction() as session:
            source = target.acquire(session)
            write_claims.renew_claim(session, claim.id)
            known = find_known(session, source, [sample.digest for sample in selection.samples])
            new = deduplicate(selection.samples, known, readmitted=selection.readmitted, unreadable=spec.unreadable)
            if len(new.samples) == len(selection.samples):
                size_bytes = sum(sizes[sample.digest] for sample in selection.samples)
                reserve_quota(session, source.owner_id, registry.default_quota_bytes, size_bytes)
                shards = insert_samples(session, source, selection.samples, selection.shard_by_digest, sizes)
                returning = [digest for digest in selection.readmitted if digest in selection.shard_by_digest]
                remove_tombstones(session, source, returning)
                result = IngestResult(
                    source.id, shards, len(selection.samples), size_bytes, sort_by_name(selection.skipped)
                )
                write_claims.commit_objects(session, claim.id)
                chain.append_entry(
                    session,
                    target.caller.user_id,
                    target.action,
                    source=source.id,
                    task=source.task_id,
                    shards=len(shards),
                    samples=result.samples,
                    bytes=result.size_bytes,
                    readmitted=len(returning),
                )
                return result
        # Another request added or forgot some of them meanwhile. Each round leaves fewer, so this ends.
        require_new(new)
        left = {sample.digest for sample in new.samples}
        for digest, shard in selection.shard_by_digest.items():
            if digest not in left:
                registry.objects.remove(sample_key(target.id, shard, digest))
        selection = replace(
            selection,
            samples=new.samples,
            shard_by_digest={digest: shard for digest, shard in selection.shard_by_digest.items() if digest in left},
            skipped=selection.skipped + new.skipped,
        )
