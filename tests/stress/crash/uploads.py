"""Upload archives of a crash run: small unique pictures under unique names, so that a search finds any trace."""

import hashlib
import io
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

LABELS = ("cat", "dog")
EACH = 3  # pictures per label
SIDE = 12
SECRET = "secret"  # part of every name, so that a search finds any trace


@dataclass(frozen=True)
class UploadArchive:
    """One archive, with the names and bytes that a search can look for."""

    name: str  # of the new source
    bodies: Mapping[str, bytes]  # the pictures' files by their names

    @cached_property
    def by_digest(self) -> Mapping[str, tuple[str, bytes]]:
        return {hashlib.sha256(body).hexdigest(): (name, body) for name, body in self.bodies.items()}

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(self.by_digest)


def random_archive(rng: random.Random, number: int) -> UploadArchive:
    """Return an archive of that number; no two share a picture or a name."""
    bodies = {}
    for label in rng.sample(LABELS, rng.randint(1, len(LABELS))):  # one label alone is trained too
        for picture in range(EACH):
            file = io.BytesIO()
            Image.frombytes("RGB", (SIDE, SIDE), rng.randbytes(SIDE * SIDE * 3)).save(file, "PNG")
            bodies[f"{label}/{SECRET}-{number:05}-{picture}.png"] = file.getvalue()
    return UploadArchive(f"{SECRET} source {number:05}", bodies)
