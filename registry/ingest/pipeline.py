"""Taking pictures in, all or nothing: an upload has all its rows and objects, or has left nothing anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from sqlalchemy.orm import Session

from alacarte.api.limits import MAX_SHARDS
from registry.access.quotas import require_quota, reserve_quota
from registry.catalog.shards import assign_shard
from registry.datasets.dataset import Dataset, LabelledPicture, SkippedFile
from registry.datasets.limits import DatasetLimits
from registry.datasets.loader import open_dataset
from registry.datasets.member_names import quote
from registry.datasets.validate import Unreadable
from registry.errors import DatasetRejected, Invalid
from registry.failpoints import hit_failpoint
from registry.ids import new_id
from registry.ingest.claim import ClaimedUpload, claim_shards
from registry.ingest.deduplicate import NO_KNOWN_SAMPLES, deduplicate, find_known, require_new, sort_by_name
from registry.ingest.insert_rows import insert_samples
from registry.ingest.store_objects import ProgressCallback, store_samples
from registry.ingest.target import TargetSnapshot, UploadTarget
from registry.ingest.tombstones import remove_tombstones
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import sample_key
from registry.storage.ownership import require_own_store


@dataclass(frozen=True)
class UploadSpec:
    """What is sent, and how it is to be read."""

    path: Path
    shards: int
    limits: DatasetLimits
    within: str | None
    unreadable: Unreadable
    consume: bool  # the file is ours, and must not outlive the upload


@dataclass(frozen=True)
class IngestResult:
    """What was taken in, and what was left out and why."""

    source_id: UUID
    shards: tuple[UUID, ...]  # the new ones, in the order of their numbers
    samples: int
    size_bytes: int
    refusals: tuple[SkippedFile, ...]  # sorted by name


@dataclass(frozen=True)
class _Sorted:
    """The samples that are new, each with the shard that it falls into, and what is left out so far."""

    samples: tuple[LabelledPicture, ...]
    shard_of: Mapping[str, UUID]  # by digest
    pardoned: Mapping[str, UUID]  # forgotten ones that may come back: the erasure of each, by digest
    refusals: tuple[SkippedFile, ...]


def ingest(
    registry: Registry, destination: UploadTarget, parcel: UploadSpec, report: ProgressCallback | None = None
) -> IngestResult:
    """Reads, checks and keeps the parcel's pictures; `report` hears how many of them are kept so far."""
    if not 1 <= parcel.shards <= MAX_SHARDS:
        raise Invalid(f"an upload makes 1 to {MAX_SHARDS} shards, not {parcel.shards}")
    require_own_store(registry.database, registry.objects)
    shards = [new_id() for _ in range(parcel.shards)]
    body = parcel.path if parcel.consume else None

    def approach(session: Session) -> TargetSnapshot:
        ground = destination.approach(session)
        require_quota(session, ground.owner_id, registry.quota_bytes)
        return ground

    with (
        claim_shards(registry, destination.id, shards, approach, body) as hold,
        open_dataset(
            parcel.path,
            scratch=hold.room,
            limits=parcel.limits,
            within=parcel.within,
            unreadable=parcel.unreadable,
        ) as collection,
    ):
        _check_whole(collection, parcel, hold.ground)
        chosen = _choose(registry, collection, parcel, hold.ground, shards, readmit=destination.readmit)
        _require_room(registry, hold.ground, chosen)
        sizes = store_samples(
            registry.objects,
            chosen.samples,
            lambda sample: sample_key(destination.id, chosen.shard_of[sample.digest], sample.digest),
            hold.room,
            check=hold.check,
            report=report,
        )
        hit_failpoint("upload: objects written")
        admission = _commit(registry, destination, parcel, hold, chosen, sizes)
        hit_failpoint("upload: committed")
    return admission


def _check_whole(collection: Dataset, parcel: UploadSpec, ground: TargetSnapshot) -> None:
    if ground.labels is not None and (strange := sorted(set(collection.labels) - ground.labels)):
        names = ", ".join(quote(label) for label in strange[:5])
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise DatasetRejected(f"the task does not have the labels {names}{more}: rename or remove them")
    if parcel.shards > len(collection.samples):
        raise Invalid(f"{len(collection.samples)} pictures cannot make {parcel.shards} shards: use fewer")


def _choose(
    registry: Registry,
    collection: Dataset,
    parcel: UploadSpec,
    ground: TargetSnapshot,
    shards: Sequence[UUID],
    *,
    readmit: bool,
) -> _Sorted:
    known = NO_KNOWN_SAMPLES
    if ground.source is not None:
        with registry.database.read_transaction() as session:
            known = find_known(session, ground.source, [sample.digest for sample in collection.samples])
    pardoned = {digest: burial.erasure_id for digest, burial in known.burials.items()} if readmit else {}
    sifted = deduplicate(collection.samples, known, pardoned=pardoned, unreadable=parcel.unreadable)
    require_new(sifted)
    return _Sorted(
        sifted.fresh,
        {s.digest: shards[assign_shard(s.digest, ground.key, len(shards))] for s in sifted.fresh},
        pardoned,
        collection.skipped + sifted.refusals,
    )


def _require_room(registry: Registry, ground: TargetSnapshot, chosen: _Sorted) -> None:
    """Refuses what is too much now, before any of it is written; whether it still fits in the end is asked again."""
    size_bytes = sum(sample.path.stat().st_size for sample in chosen.samples)
    with registry.database.read_transaction() as session:
        require_quota(session, ground.owner_id, registry.quota_bytes, size_bytes)


def _commit(
    registry: Registry,
    destination: UploadTarget,
    parcel: UploadSpec,
    hold: ClaimedUpload[TargetSnapshot],
    chosen: _Sorted,
    sizes: Mapping[str, int],
) -> IngestResult:
    """Gives the objects their rows, and all of them: what is not new any more is removed first."""
    while True:
        with registry.database.write_transaction() as session:
            source = destination.arrive(session)
            write_claims.renew_claim(session, hold.id)
            known = find_known(session, source, [sample.digest for sample in chosen.samples])
            sifted = deduplicate(chosen.samples, known, pardoned=chosen.pardoned, unreadable=parcel.unreadable)
            if len(sifted.fresh) == len(chosen.samples):
                size_bytes = sum(sizes[sample.digest] for sample in chosen.samples)
                reserve_quota(session, source.owner_id, registry.quota_bytes, size_bytes)
                shards = insert_samples(session, source, chosen.samples, chosen.shard_of, sizes)
                returning = [digest for digest in chosen.pardoned if digest in chosen.shard_of]
                remove_tombstones(session, source, returning)
                admission = IngestResult(
                    source.id,
                    shards,
                    len(chosen.samples),
                    size_bytes,
                    sort_by_name(chosen.refusals),
                )
                write_claims.commit_objects(session, hold.id)
                chain.append_entry(
                    session,
                    destination.caller.user_id,
                    destination.action,
                    source=source.id,
                    task=source.task_id,
                    shards=len(shards),
                    samples=admission.samples,
                    bytes=admission.size_bytes,
                    readmitted=len(returning),
                )
                return admission
        # Somebody else added or forgot some of them meanwhile. Each round leaves fewer, so there is an end.
        require_new(sifted)
        left = {sample.digest for sample in sifted.fresh}
        for digest, shard in chosen.shard_of.items():
            if digest not in left:
                registry.objects.remove(sample_key(destination.id, shard, digest))
        chosen = replace(
            chosen,
            samples=sifted.fresh,
            shard_of={digest: shard for digest, shard in chosen.shard_of.items() if digest in left},
            refusals=chosen.refusals + sifted.refusals,
        )
