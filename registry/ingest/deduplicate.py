"""Finds the pictures of a dataset that are new to their source: known and forgotten ones are left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from alacarte.api.literals import UnreadablePolicy
from registry.datasets.dataset import LabelledPicture, SkippedFile
from registry.datasets.member_names import quote
from registry.db.models.catalog import Sample, Source, Tombstone
from registry.db.paging import batched
from registry.errors import DatasetRejected
from registry.ingest.tombstones import find_tombstones


@dataclass(frozen=True)
class KnownSamples:
    """What a source knows about some digests."""

    labels: Mapping[str, str]  # of samples that the source has
    tombstones: Mapping[str, Tombstone]  # of pictures that were forgotten


@dataclass(frozen=True)
class NewSamples:
    """The pictures that are new to the source, and why the others are left out."""

    samples: tuple[LabelledPicture, ...]
    skipped: tuple[SkippedFile, ...]


NO_KNOWN_SAMPLES = KnownSamples(labels={}, tombstones={})


def find_known(session: Session, source: Source, digests: Sequence[str]) -> KnownSamples:
    """Return what the source knows about these digests now."""
    labels: dict[str, str] = {}
    for batch in batched(digests):
        own = select(Sample.digest, Sample.label).where(Sample.source_id == source.id, Sample.digest.in_(batch))
        labels.update((digest, label) for digest, label in session.execute(own))
    return KnownSamples(labels, find_tombstones(session, source, digests))


def deduplicate(
    samples: Sequence[LabelledPicture],
    known: KnownSamples,
    *,
    readmitted: Mapping[str, UUID],
    unreadable: UnreadablePolicy,
) -> NewSamples:
    """Return the new pictures; forgotten or contradicting ones reject the upload, unless they are to be skipped.

    `readmitted` names, by digest, the erasures to disregard; a later erasure of the same picture still counts.
    """
    new, present, unusable = [], [], []
    for sample in samples:
        if reason := _reject_reason(sample, known, readmitted):
            unusable.append(SkippedFile(sample.name, reason))
        elif sample.digest in known.labels:
            present.append(SkippedFile(sample.name, "is in the source already"))
        else:
            new.append(sample)
    if unusable and unreadable == "refuse":
        raise DatasetRejected(_summarize(unusable, len(samples)))
    return NewSamples(tuple(new), tuple(present + unusable))


def require_new(result: NewSamples) -> None:
    """Reject an upload without any new picture."""
    if not result.samples:
        skipped = sort_by_name(result.skipped)
        first = f"{quote(skipped[0].name)} {skipped[0].reason}"
        more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        raise DatasetRejected(f"no picture is new to the source ({first}{more}): there is nothing to add")


def sort_by_name(skipped: Iterable[SkippedFile]) -> tuple[SkippedFile, ...]:
    """Return the skipped files sorted by name."""
    return tuple(sorted(skipped, key=lambda file: (file.name, file.reason)))


def _reject_reason(sample: LabelledPicture, known: KnownSamples, readmitted: Mapping[str, UUID]) -> str | None:
    if (label := known.labels.get(sample.digest, sample.label)) != sample.label:
        return f"labelled {quote(sample.label)}, but in the source already, labelled {quote(label)}"
    tombstone = known.tombstones.get(sample.digest)
    if tombstone is not None and readmitted.get(sample.digest) != tombstone.erasure_id:
        return f"was forgotten on {tombstone.created_at:%Y-%m-%d}: ask the owner"
    return None


def _summarize(unusable: list[SkippedFile], total: int) -> str:
    first = sort_by_name(unusable)[:3]
    some = "; ".join(f"{quote(file.name)} {file.reason}" for file in first)
    more = f"; and {len(unusable) - 3} more" if len(unusable) > 3 else ""
    return (
        f"{len(unusable)} of {total} pictures cannot be added ({some}{more}): leave them out with --skip-unreadable, "
        "or, if their owner wants forgotten ones back, use --readmit"
    )
