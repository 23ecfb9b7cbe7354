"""What reading yields: samples, what was left out and why, and both together as a collection."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LabelledPicture:
    """One labelled picture, identified by the digest of its bytes."""

    label: str
    name: str  # inside the collection, for messages
    digest: str  # sha256, hexadecimal
    path: Path  # a file that holds exactly these bytes


@dataclass(frozen=True)
class SkippedFile:
    """A file of the collection that is not among its samples, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """Labelled pictures, sorted by digest, so that the order in storage never matters."""

    samples: tuple[LabelledPicture, ...]
    refusals: tuple[SkippedFile, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted({sample.label for sample in self.samples}))
