"""The pictures of the demo: scikit-learn's handwritten digits as PNG files, split among four people."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

LEVELS = 16  # of grey in the data, above black
SIDE = 64  # of a picture in pixels; the data has 8

# Two know half of the digits each, two have a mix of all.
DIGITS: Mapping[str, tuple[int, ...]] = {
    "ann": (0, 1, 2, 3, 4),
    "bob": (5, 6, 7, 8, 9),
    "cem": tuple(range(10)),
    "dee": tuple(range(10)),
}


@dataclass(frozen=True)
class TestPicture:
    """A picture that no source has, with its label."""

    __test__ = False  # not a pytest class

    path: Path
    label: str


def write_digits(folder: Path, each: int, tests: int, seed: int) -> tuple[dict[str, Path], list[TestPicture]]:
    """Write class folders with `each` pictures for every source, and the test pictures."""
    data = load_digits()
    images, labels = data.images, data.target
    order = np.random.default_rng(seed).permutation(len(labels)).tolist()
    test_indices, rest = order[:tests], order[tests:]
    folders: dict[str, Path] = {}
    for source, digits in DIGITS.items():
        folders[source] = folder / source
        chosen = [index for index in rest if labels[index] in digits][:each]
        for index in chosen:
            _write_png(images[index], folders[source] / str(labels[index]) / f"{labels[index]}-{index}.png")
        rest = [index for index in rest if index not in set(chosen)]
    pictures = [
        TestPicture(_write_png(images[index], folder / "tests" / f"{labels[index]}-{index}.png"), str(labels[index]))
        for index in test_indices
    ]
    return folders, pictures


def _write_png(levels: NDArray[np.float64], path: Path) -> Path:
    """Write the digit as dark ink on white paper."""
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = np.rint(255 * (1 - levels / LEVELS)).astype(np.uint8)
    Image.fromarray(grey).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
    return path
