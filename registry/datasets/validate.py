"""From what a collection says to what it is: every picture is hashed and decoded before it counts."""

import hashlib
from typing import BinaryIO, Literal

from registry.datasets.annotations import Annotation, AnnotationSet
from registry.datasets.file_tree import FileTree
from registry.datasets.filetype import HEAD_BYTES, detect_file_type
from registry.datasets.folder_reader import open_file
from registry.datasets.limits import DatasetLimits, SizeMeter
from registry.datasets.member_names import quote
from registry.datasets.picture import decode_picture
from registry.datasets.sample import Dataset, LabelledPicture, SkippedFile
from registry.datasets.unpack_dir import CHUNK_BYTES
from registry.errors import DatasetRejected, InvalidPicture

Unreadable = Literal["refuse", "skip"]


def reject_nested_archives(tree: FileTree) -> None:
    """What lies packed inside was not checked and will not be unpacked, so it must not be overlooked."""
    for member in tree.members:
        with open_file(member) as file:
            if detect_file_type(file.read(HEAD_BYTES)) != "other":
                raise DatasetRejected(f"{quote(member.name)} is an archive in the collection: unpack it")


def validate(labelling: AnnotationSet, limits: DatasetLimits, *, unreadable: Unreadable) -> Dataset:
    """The collection's samples, each one decoded; what is wrong with the whole raises CollectionRefused."""
    found: dict[str, list[Annotation]] = {}  # digest -> who claims it
    broken: dict[str, str] = {}  # digest -> reason
    faults = list(labelling.faults)
    meter = SizeMeter(limits)
    for claim in sorted(labelling.claims, key=lambda claim: claim.member.name):
        digest, reason = _examined(claim, found, broken, meter)
        if reason:
            broken[digest] = reason
            faults.append(SkippedFile(claim.member.name, reason))
        else:
            found.setdefault(digest, []).append(claim)
    faults += _contradictions(found)
    if faults and unreadable == "refuse":
        raise DatasetRejected(_summary(faults, len(labelling.claims) + len(labelling.faults)))
    samples, repeated = _once(found)
    _refuse_bare_labels(labelling.labels, samples)
    refusals = sorted([*labelling.refusals, *faults, *repeated], key=lambda refusal: refusal.name)
    return Dataset(tuple(samples), tuple(refusals))


def _contradictions(found: dict[str, list[Annotation]]) -> list[SkippedFile]:
    """All files whose very bytes stand under another label too: which one is right cannot be known."""
    faults: list[SkippedFile] = []
    for claims in found.values():
        first_of = {claim.label: claim for claim in reversed(claims)}
        if len(first_of) == 1:
            continue
        for claim in claims:
            other = next(other for label, other in first_of.items() if label != claim.label)
            reason = f"labelled {quote(claim.label)}, but the same picture as {quote(other.member.name)}, "
            faults.append(SkippedFile(claim.member.name, f"{reason}labelled {quote(other.label)}"))
    return faults


def _once(found: dict[str, list[Annotation]]) -> tuple[list[LabelledPicture], list[SkippedFile]]:
    """One sample for each digest without contradiction, in their order, and the copies of its file."""
    samples: list[LabelledPicture] = []
    repeated: list[SkippedFile] = []
    for digest, claims in sorted(found.items()):
        if len({claim.label for claim in claims}) == 1:
            first = claims[0]
            samples.append(LabelledPicture(first.label, first.member.name, digest, first.member.path))
            repeated += [
                SkippedFile(copy.member.name, f"same picture as {quote(first.member.name)}") for copy in claims[1:]
            ]
    return samples, repeated


def _examined(
    claim: Annotation, found: dict[str, list[Annotation]], broken: dict[str, str], meter: SizeMeter
) -> tuple[str, str | None]:
    """The file's digest, and why it is unreadable, if it is; known bytes are not decoded again."""
    with open_file(claim.member) as file:
        digest = claim.member.digest or _digest_of(file, claim.member.name, meter)
        if digest in found or digest in broken:
            return digest, broken.get(digest)
        file.seek(0)
        try:
            decode_picture(file, meter.limits.max_pixels)
        except InvalidPicture as error:
            return digest, str(error)
    return digest, None


def _digest_of(file: BinaryIO, name: str, meter: SizeMeter) -> str:
    hashed = hashlib.sha256()
    size_bytes = 0
    while chunk := file.read(CHUNK_BYTES):
        # Counted again: a file may have grown since the walk.
        size_bytes += len(chunk)
        meter.check_file(name, size_bytes)
        meter.take(name, len(chunk))
        hashed.update(chunk)
    return hashed.hexdigest()


def _refuse_bare_labels(labels: frozenset[str], samples: list[LabelledPicture]) -> None:
    bare = sorted(labels - {sample.label for sample in samples})
    if bare:
        names = ", ".join(quote(label) for label in bare[:5])
        raise DatasetRejected(f"no readable picture of {names}: add pictures, or remove the class")
    if not samples:
        raise DatasetRejected("the collection holds no labelled picture: add some")


def _summary(faults: list[SkippedFile], total: int) -> str:
    first = sorted(faults, key=lambda fault: fault.name)[:3]
    some = "; ".join(f"{quote(fault.name)}: {fault.reason}" for fault in first)
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return (
        f"{len(faults)} of {total} files cannot be used ({some}{more}): "
        "mend or remove them, or leave them out with --skip-unreadable"
    )
