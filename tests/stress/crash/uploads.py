"""What owners upload in a crash run: archives of small pictures that are nowhere else, under names that are secrets."""

import hashlib
import io
import random
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

LABELS = ("cat", "dog")
EACH = 3  # pictures of a label
SIDE = 12
SECRET = "secret"  # in every name that a archive brings, so that a search finds whatever is left of any


@dataclass(frozen=True)
class UploadArchive:
    """One archive, and all that could be found of it."""

    name: str  # of the source that it is to be, if it is not added to one
    bodies: Mapping[str, bytes]  # the pictures' files by their names

    @cached_property
    def digests(self) -> frozenset[str]:
        """By which the registry knows the pictures."""
        return frozenset(hashlib.sha256(body).hexdigest() for body in self.bodies.values())

    @cached_property
    def by_digest(self) -> Mapping[str, tuple[str, bytes]]:
        """The pictures' names and bytes."""
        return {hashlib.sha256(body).hexdigest(): (name, body) for name, body in self.bodies.items()}

    def packed(self) -> bytes:
        """The archive; stored and not squeezed, so that a search finds a picture in it too."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, body in self.bodies.items():
                archive.writestr(name, body)
        return file.getvalue()


def random_archive(dice: random.Random, number: int) -> UploadArchive:
    """A archive of that number; no two have a picture in common, nor a name that is part of the other's."""
    bodies = {}
    for label in dice.sample(LABELS, dice.randint(1, len(LABELS))):  # what has one label only is trained too
        for picture in range(EACH):
            file = io.BytesIO()
            Image.frombytes("RGB", (SIDE, SIDE), dice.randbytes(SIDE * SIDE * 3)).save(file, "PNG")
            bodies[f"{label}/{SECRET}-{number:05}-{picture}.png"] = file.getvalue()
    return UploadArchive(f"{SECRET} source {number:05}", bodies)
