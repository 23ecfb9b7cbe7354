"""Labelled pictures for tests of training: drawn, or real ones from beside the repository."""

import hashlib
import random
import tarfile
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from registry.datasets.dataset import LabelledPicture

SHARED = Path(__file__).parents[2].parent / "shared"
WEIGHTS = SHARED / "weights" / "vit_tiny_patch16_224.safetensors"
CLOTHING = SHARED / "data" / "clothing10-tiny.tar.gz"
COLOURS = {"blue": (30, 60, 200), "green": (30, 180, 70), "red": (200, 50, 40)}

needs_pictures = pytest.mark.skipif(
    not (WEIGHTS.exists() and CLOTHING.exists()),
    reason=f"no {WEIGHTS.name} and {CLOTHING.name} in shared/ beside the repository",
)

Samples = tuple[LabelledPicture, ...]


def draw_samples(folder: Path, count: int) -> Samples:
    """Rectangles of three colours, which are their labels; the same bytes each time."""
    return tuple(_draw(folder / f"{number}.png", number) for number in range(count))


def _draw(path: Path, number: int) -> LabelledPicture:
    dice = random.Random(number)
    label = sorted(COLOURS)[number % len(COLOURS)]
    image = Image.new("RGB", (56, 64), "grey")
    left, top = dice.randrange(20), dice.randrange(20)
    pen = ImageDraw.Draw(image)
    pen.rectangle((left, top, left + 30, top + 30), fill=COLOURS[label])
    pen.line([(dice.randrange(56), dice.randrange(64)) for _ in range(4)], fill="white", width=2)
    image.save(path)
    return as_sample(path, label)


def as_sample(path: Path, label: str) -> LabelledPicture:
    return LabelledPicture(label, path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path)


def unpack_clothing(folder: Path) -> Path:
    """The folder with train/ and test/ of the real pictures, in folders of their labels."""
    with tarfile.open(CLOTHING) as archive:
        archive.extractall(folder, filter="data")
    return folder / "clothing10-tiny"


def samples_below(folder: Path) -> Samples:
    return tuple(as_sample(path, path.parent.name) for path in sorted(folder.glob("*/*.jpg")))
