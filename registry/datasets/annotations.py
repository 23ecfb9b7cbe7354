"""Which file shows what: the answer that every layout of a collection gives, each in its own way."""

from dataclasses import dataclass

from registry.datasets.file_tree import DatasetFile
from registry.datasets.sample import SkippedFile


@dataclass(frozen=True)
class Annotation:
    """The collection says that this file is a picture of this label."""

    label: str
    member: DatasetFile


@dataclass(frozen=True)
class AnnotationSet:
    """All that a collection says about its files, not yet checked against their bytes."""

    claims: tuple[Annotation, ...]
    labels: frozenset[str]  # each of them must be left with a picture
    faults: tuple[SkippedFile, ...] = ()  # files that cannot be samples, as bad as unreadable pictures
    refusals: tuple[SkippedFile, ...] = ()  # files that are left out without harm
