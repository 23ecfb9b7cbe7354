"""The types of a dataset: annotated files before validation, labelled pictures after it."""

from dataclasses import dataclass
from pathlib import Path

from registry.datasets.file_tree import DatasetFile


@dataclass(frozen=True)
class LabelledPicture:
    """One picture with its label, identified by the digest of its bytes."""

    label: str
    name: str  # inside the dataset, for messages
    digest: str  # sha256, hexadecimal
    path: Path  # a file that holds exactly these bytes


@dataclass(frozen=True)
class SkippedFile:
    """A file of the dataset that is not among its samples, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """Validated pictures, sorted by digest, so that their order in storage never matters."""

    samples: tuple[LabelledPicture, ...]
    skipped: tuple[SkippedFile, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted({sample.label for sample in self.samples}))


@dataclass(frozen=True)
class Annotation:
    """The label that the dataset gives to one file."""

    label: str
    file: DatasetFile


@dataclass(frozen=True)
class AnnotationSet:
    """What a dataset's layout says about its files, before their bytes are checked."""

    annotations: tuple[Annotation, ...]
    labels: frozenset[str]  # each must keep at least one readable picture
    unusable: tuple[SkippedFile, ...] = ()  # rejected or skipped like unreadable pictures
    ignored: tuple[SkippedFile, ...] = ()  # never a reason to reject the dataset
