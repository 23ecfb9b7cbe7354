"""Labelled pictures for tests of training."""

import hashlib
import random
from pathlib import Path

from PIL import Image, ImageDraw

from registry.datasets.dataset import LabelledPicture

SHARED = Path(__file__).parents[2].parent / "shared"
WEIGHTS = SHARED / "weights" / "vit_tiny_patch16_224.safetensors"
COLOURS = {"blue": (30, 60, 200), "green": (30, 180, 70), "red": (200, 50, 40)}

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
