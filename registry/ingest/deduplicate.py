"""What of a collection is new to its source: pictures that are there already and forgotten ones stay out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.datasets.dataset import LabelledPicture, SkippedFile
from registry.datasets.member_names import quote
from registry.datasets.validate import Unreadable
from registry.db.models.catalog import Sample, Source
from registry.errors import DatasetRejected
from registry.ingest.batches import batches
from registry.ingest.tombstones import Burial, find_tombstones


@dataclass(frozen=True)
class KnownSamples:
    """What a source knows of the digests it was asked about."""

    labels: Mapping[str, str]  # of samples that are there
    burials: Mapping[str, Burial]


@dataclass(frozen=True)
class NewSamples:
    """The samples that are new, and why the others are not among them."""

    fresh: tuple[LabelledPicture, ...]
    refusals: tuple[SkippedFile, ...]


NO_KNOWN_SAMPLES = KnownSamples(labels={}, burials={})


def find_known(session: Session, source: Source, digests: Sequence[str]) -> KnownSamples:
    """What the source knows of these digests now."""
    labels: dict[str, str] = {}
    for batch in batches(digests):
        there = select(Sample.digest, Sample.label)
        found = session.execute(there.where(Sample.source_id == source.id, Sample.digest.in_(batch)))
        labels.update((digest, label) for digest, label in found)
    return KnownSamples(labels, find_tombstones(session, source, digests))


def deduplicate(
    samples: Sequence[LabelledPicture], known: KnownSamples, *, pardoned: Mapping[str, UUID], unreadable: Unreadable
) -> NewSamples:
    """The new samples; forgotten or contradicted ones refuse the whole, unless they shall be skipped.

    `pardoned` names, by digest, the erasures that shall not count any more: a later one of the same picture does.
    """
    fresh, repeated, faults = [], [], []
    for sample in samples:
        if fault := _fault_of(sample, known, pardoned):
            faults.append(SkippedFile(sample.name, fault))
        elif sample.digest in known.labels:
            repeated.append(SkippedFile(sample.name, "is in the source already"))
        else:
            fresh.append(sample)
    if faults and unreadable == "refuse":
        raise DatasetRejected(_summary(faults, len(samples)))
    return NewSamples(tuple(fresh), tuple(repeated + faults))


def require_new(sifted: NewSamples) -> None:
    """Refuses an upload of which nothing is left."""
    if not sifted.fresh:
        refusals = sort_by_name(sifted.refusals)
        first = f"{quote(refusals[0].name)} {refusals[0].reason}"
        more = f", and {len(refusals) - 1} more" if len(refusals) > 1 else ""
        raise DatasetRejected(f"no picture is new to the source ({first}{more}): there is nothing to add")


def sort_by_name(refusals: Iterable[SkippedFile]) -> tuple[SkippedFile, ...]:
    """The refusals as people look for them."""
    return tuple(sorted(refusals, key=lambda refusal: (refusal.name, refusal.reason)))


def _fault_of(sample: LabelledPicture, known: KnownSamples, pardoned: Mapping[str, UUID]) -> str | None:
    if (label := known.labels.get(sample.digest, sample.label)) != sample.label:
        return f"labelled {quote(sample.label)}, but in the source already, labelled {quote(label)}"
    burial = known.burials.get(sample.digest)
    if burial is not None and pardoned.get(sample.digest) != burial.erasure_id:
        return f"was forgotten on {burial.made_at:%Y-%m-%d}: ask the owner"
    return None


def _summary(faults: list[SkippedFile], total: int) -> str:
    first = sort_by_name(faults)[:3]
    some = "; ".join(f"{quote(fault.name)} {fault.reason}" for fault in first)
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return (
        f"{len(faults)} of {total} pictures cannot be added ({some}{more}): leave them out with --skip-unreadable, "
        "or, if their owner wants forgotten ones back, use --readmit"
    )
