"""From what a collection says to what it is: every picture is hashed and decoded before it counts."""

import hashlib
from typing import BinaryIO, Literal

from registry.datasets.annotations import Claim, Labelling
from registry.datasets.file_tree import Tree
from registry.datasets.filetype import HEAD_BYTES, kind_of
from registry.datasets.folder_reader import opened
from registry.datasets.limits import Limits, Meter
from registry.datasets.member_names import shown
from registry.datasets.picture import decode
from registry.datasets.sample import Collection, Refusal, Sample
from registry.datasets.unpack_dir import CHUNK_BYTES
from registry.errors import CollectionRefused, PictureUnreadable

Unreadable = Literal["refuse", "skip"]


def refuse_nested_archives(tree: Tree) -> None:
    """What lies packed inside was not checked and will not be unpacked, so it must not be overlooked."""
    for member in tree.members:
        with opened(member) as file:
            if kind_of(file.read(HEAD_BYTES)) != "other":
                raise CollectionRefused(f"{shown(member.name)} is an archive in the collection: unpack it")


def check(labelling: Labelling, limits: Limits, *, unreadable: Unreadable) -> Collection:
    """The collection's samples, each one decoded; what is wrong with the whole raises CollectionRefused."""
    found: dict[str, list[Claim]] = {}  # digest -> who claims it
    broken: dict[str, str] = {}  # digest -> reason
    faults = list(labelling.faults)
    meter = Meter(limits)
    for claim in sorted(labelling.claims, key=lambda claim: claim.member.name):
        digest, reason = _examined(claim, found, broken, meter)
        if reason:
            broken[digest] = reason
            faults.append(Refusal(claim.member.name, reason))
        else:
            found.setdefault(digest, []).append(claim)
    faults += _contradictions(found)
    if faults and unreadable == "refuse":
        raise CollectionRefused(_summary(faults, len(labelling.claims) + len(labelling.faults)))
    samples, repeated = _once(found)
    _refuse_bare_labels(labelling.labels, samples)
    refusals = sorted([*labelling.refusals, *faults, *repeated], key=lambda refusal: refusal.name)
    return Collection(tuple(samples), tuple(refusals))


def _contradictions(found: dict[str, list[Claim]]) -> list[Refusal]:
    """All files whose very bytes stand under another label too: which one is right cannot be known."""
    faults: list[Refusal] = []
    for claims in found.values():
        first_of = {claim.label: claim for claim in reversed(claims)}
        if len(first_of) == 1:
            continue
        for claim in claims:
            other = next(other for label, other in first_of.items() if label != claim.label)
            reason = f"labelled {shown(claim.label)}, but the same picture as {shown(other.member.name)}, "
            faults.append(Refusal(claim.member.name, f"{reason}labelled {shown(other.label)}"))
    return faults


def _once(found: dict[str, list[Claim]]) -> tuple[list[Sample], list[Refusal]]:
    """One sample for each digest without contradiction, in their order, and the copies of its file."""
    samples: list[Sample] = []
    repeated: list[Refusal] = []
    for digest, claims in sorted(found.items()):
        if len({claim.label for claim in claims}) == 1:
            first = claims[0]
            samples.append(Sample(first.label, first.member.name, digest, first.member.path))
            repeated += [
                Refusal(copy.member.name, f"same picture as {shown(first.member.name)}") for copy in claims[1:]
            ]
    return samples, repeated


def _examined(
    claim: Claim, found: dict[str, list[Claim]], broken: dict[str, str], meter: Meter
) -> tuple[str, str | None]:
    """The file's digest, and why it is unreadable, if it is; known bytes are not decoded again."""
    with opened(claim.member) as file:
        digest = claim.member.digest or _digest_of(file, claim.member.name, meter)
        if digest in found or digest in broken:
            return digest, broken.get(digest)
        file.seek(0)
        try:
            decode(file, meter.limits.max_pixels)
        except PictureUnreadable as error:
            return digest, str(error)
    return digest, None


def _digest_of(file: BinaryIO, name: str, meter: Meter) -> str:
    hashed = hashlib.sha256()
    size_bytes = 0
    while chunk := file.read(CHUNK_BYTES):
        # Counted again: a file may have grown since the walk.
        size_bytes += len(chunk)
        meter.check_file(name, size_bytes)
        meter.take(name, len(chunk))
        hashed.update(chunk)
    return hashed.hexdigest()


def _refuse_bare_labels(labels: frozenset[str], samples: list[Sample]) -> None:
    bare = sorted(labels - {sample.label for sample in samples})
    if bare:
        names = ", ".join(shown(label) for label in bare[:5])
        raise CollectionRefused(f"no readable picture of {names}: add pictures, or remove the class")
    if not samples:
        raise CollectionRefused("the collection holds no labelled picture: add some")


def _summary(faults: list[Refusal], total: int) -> str:
    first = sorted(faults, key=lambda fault: fault.name)[:3]
    some = "; ".join(f"{shown(fault.name)}: {fault.reason}" for fault in first)
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return (
        f"{len(faults)} of {total} files cannot be used ({some}{more}): "
        "mend or remove them, or leave them out with --skip-unreadable"
    )
