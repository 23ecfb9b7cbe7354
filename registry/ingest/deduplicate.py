"""What of a collection is new to its source: pictures that are there already and forgotten ones stay out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.datasets.member_names import shown
from registry.datasets.sample import Refusal, Sample
from registry.datasets.validate import Unreadable
from registry.db.models.catalog import Sample as SampleRow
from registry.db.models.catalog import Source
from registry.errors import CollectionRefused
from registry.ingest.batches import batches
from registry.ingest.tombstones import Burial, buried


@dataclass(frozen=True)
class Known:
    """What a source knows of the digests it was asked about."""

    labels: Mapping[str, str]  # of samples that are there
    burials: Mapping[str, Burial]


@dataclass(frozen=True)
class Sifted:
    """The samples that are new, and why the others are not among them."""

    fresh: tuple[Sample, ...]
    refusals: tuple[Refusal, ...]


NOTHING_KNOWN = Known(labels={}, burials={})


def look_up(session: Session, source: Source, digests: Sequence[str]) -> Known:
    """What the source knows of these digests now."""
    labels: dict[str, str] = {}
    for batch in batches(digests):
        there = select(SampleRow.digest, SampleRow.label)
        found = session.execute(there.where(SampleRow.source_id == source.id, SampleRow.digest.in_(batch)))
        labels.update((digest, label) for digest, label in found)
    return Known(labels, buried(session, source, digests))


def sift(samples: Sequence[Sample], known: Known, *, pardoned: Mapping[str, UUID], unreadable: Unreadable) -> Sifted:
    """The new samples; forgotten or contradicted ones refuse the whole, unless they shall be skipped.

    `pardoned` names, by digest, the erasures that shall not count any more: a later one of the same picture does.
    """
    fresh, repeated, faults = [], [], []
    for sample in samples:
        if fault := _fault_of(sample, known, pardoned):
            faults.append(Refusal(sample.name, fault))
        elif sample.digest in known.labels:
            repeated.append(Refusal(sample.name, "is in the source already"))
        else:
            fresh.append(sample)
    if faults and unreadable == "refuse":
        raise CollectionRefused(_summary(faults, len(samples)))
    return Sifted(tuple(fresh), tuple(repeated + faults))


def require_some(sifted: Sifted) -> None:
    """Refuses an upload of which nothing is left."""
    if not sifted.fresh:
        refusals = by_name(sifted.refusals)
        first = f"{shown(refusals[0].name)} {refusals[0].reason}"
        more = f", and {len(refusals) - 1} more" if len(refusals) > 1 else ""
        raise CollectionRefused(f"no picture is new to the source ({first}{more}): there is nothing to add")


def by_name(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """The refusals as people look for them."""
    return tuple(sorted(refusals, key=lambda refusal: (refusal.name, refusal.reason)))


def _fault_of(sample: Sample, known: Known, pardoned: Mapping[str, UUID]) -> str | None:
    if (label := known.labels.get(sample.digest, sample.label)) != sample.label:
        return f"labelled {shown(sample.label)}, but in the source already, labelled {shown(label)}"
    burial = known.burials.get(sample.digest)
    if burial is not None and pardoned.get(sample.digest) != burial.erasure_id:
        return f"was forgotten on {burial.made_at:%Y-%m-%d}: ask the owner"
    return None


def _summary(faults: list[Refusal], total: int) -> str:
    first = by_name(faults)[:3]
    some = "; ".join(f"{shown(fault.name)} {fault.reason}" for fault in first)
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return (
        f"{len(faults)} of {total} pictures cannot be added ({some}{more}): leave them out with --skip-unreadable, "
        "or, if their owner wants forgotten ones back, use --readmit"
    )
