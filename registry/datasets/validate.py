"""Validates a dataset: every annotated picture is hashed and decoded before it counts as a sample."""

import hashlib
from typing import BinaryIO

from alacarte.api.literals import UnreadablePolicy
from registry.datasets.dataset import Annotation, AnnotationSet, Dataset, LabelledPicture, SkippedFile
from registry.datasets.file_tree import CHUNK_BYTES, FileTree
from registry.datasets.filetype import HEAD_BYTES, detect_file_type
from registry.datasets.folder_reader import open_file
from registry.datasets.limits import DatasetLimits, SizeMeter
from registry.datasets.member_names import quote
from registry.datasets.picture import decode_picture
from registry.errors import DatasetRejected, InvalidPicture


def reject_nested_archives(tree: FileTree) -> None:
    """Reject archives inside the dataset, which would otherwise be left out silently."""
    for file in tree.files:
        with open_file(file) as stream:
            if detect_file_type(stream.read(HEAD_BYTES)) != "other":
                raise DatasetRejected(f"{quote(file.name)} is an archive inside the dataset: unpack it")


def validate(annotated: AnnotationSet, limits: DatasetLimits, *, unreadable: UnreadablePolicy) -> Dataset:
    """Decode every picture and return the samples; DatasetRejected if the dataset as a whole cannot be used."""
    by_digest: dict[str, list[Annotation]] = {}
    broken: dict[str, str] = {}  # digest -> reason
    unusable = list(annotated.unusable)
    meter = SizeMeter(limits)
    for annotation in sorted(annotated.annotations, key=lambda annotation: annotation.file.name):
        digest, reason = _check_picture(annotation, by_digest, broken, meter)
        if reason:
            broken[digest] = reason
            unusable.append(SkippedFile(annotation.file.name, reason))
        else:
            by_digest.setdefault(digest, []).append(annotation)
    unusable += _find_contradictions(by_digest)
    if unusable and unreadable == "refuse":
        raise DatasetRejected(_summarize(unusable, len(annotated.annotations) + len(annotated.unusable)))
    samples, duplicates = _merge_duplicates(by_digest)
    _reject_labels_without_pictures(annotated.labels, samples)
    skipped = sorted([*annotated.ignored, *unusable, *duplicates], key=lambda file: file.name)
    return Dataset(tuple(samples), tuple(skipped))


def _find_contradictions(by_digest: dict[str, list[Annotation]]) -> list[SkippedFile]:
    """Return all files whose bytes also occur under another label: it is unknown which label is right."""
    contradictions: list[SkippedFile] = []
    for annotations in by_digest.values():
        first_by_label = {annotation.label: annotation for annotation in reversed(annotations)}
        if len(first_by_label) == 1:
            continue
        for annotation in annotations:
            other = next(other for label, other in first_by_label.items() if label != annotation.label)
            reason = f"labelled {quote(annotation.label)}, but the same picture as {quote(other.file.name)}, "
            contradictions.append(SkippedFile(annotation.file.name, f"{reason}labelled {quote(other.label)}"))
    return contradictions


def _merge_duplicates(by_digest: dict[str, list[Annotation]]) -> tuple[list[LabelledPicture], list[SkippedFile]]:
    """Return one sample per digest with a single label, sorted by digest, and the duplicate files."""
    samples: list[LabelledPicture] = []
    duplicates: list[SkippedFile] = []
    for digest, annotations in sorted(by_digest.items()):
        if len({annotation.label for annotation in annotations}) == 1:
            first, *copies = annotations
            samples.append(LabelledPicture(first.label, first.file.name, digest, first.file.path))
            reason = f"same picture as {quote(first.file.name)}"
            duplicates += [SkippedFile(copy.file.name, reason) for copy in copies]
    return samples, duplicates


def _check_picture(
    annotation: Annotation, by_digest: dict[str, list[Annotation]], broken: dict[str, str], meter: SizeMeter
) -> tuple[str, str | None]:
    """Return the file's digest and, if it cannot be decoded, the reason; known bytes are not decoded again."""
    file = annotation.file
    with open_file(file) as stream:
        digest = file.digest or _compute_digest(stream, file.name, meter)
        if digest in by_digest or digest in broken:
            return digest, broken.get(digest)
        stream.seek(0)
        try:
            decode_picture(stream, meter.limits.max_pixels)
        except InvalidPicture as error:
            return digest, str(error)
    return digest, None


def _compute_digest(stream: BinaryIO, name: str, meter: SizeMeter) -> str:
    hashed = hashlib.sha256()
    size_bytes = 0
    while chunk := stream.read(CHUNK_BYTES):
        # Counted again: the file may have grown since the walk.
        size_bytes += len(chunk)
        meter.check_file(name, size_bytes)
        meter.count_bytes(name, len(chunk))
        hashed.update(chunk)
    return hashed.hexdigest()


def _reject_labels_without_pictures(labels: frozenset[str], samples: list[LabelledPicture]) -> None:
    missing = sorted(labels - {sample.label for sample in samples})
    if missing:
        names = ", ".join(quote(label) for label in missing[:5])
        raise DatasetRejected(f"no readable picture of {names}: add pictures, or remove the class")
    if not samples:
        raise DatasetRejected("the dataset has no labelled picture: add some")


def _summarize(unusable: list[SkippedFile], total: int) -> str:
    first = sorted(unusable, key=lambda file: file.name)[:3]
    some = "; ".join(f"{quote(file.name)}: {file.reason}" for file in first)
    more = f"; and {len(unusable) - 3} more" if len(unusable) > 3 else ""
    return (
        f"{len(unusable)} of {total} files cannot be used ({some}{more}): "
        "repair or remove them, or leave them out with --skip-unreadable"
    )
