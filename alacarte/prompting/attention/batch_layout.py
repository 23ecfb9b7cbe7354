"""Which (image, prompt) pairs a batch asks for, and where their rows stand: behind those of their image."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# B images, b images of a run, n rows of an image, T pairs, P pairs of one image, R rows, H heads, d width of a head


@dataclass(frozen=True)
class EqualCountRun:
    """Consecutive images that have equally many pairs, and where those pairs stand among all."""

    images: slice
    pairs: slice
    each: int  # P, the pairs of each image

    @property
    def count(self) -> int:
        """How many images they are."""
        return int(self.images.stop - self.images.start)

    def rows(self, rows: Tensor, own: int, first: int, count: int) -> Tensor:
        """Of rows (R, H, d), where each image has so many of its own and those of its pairs behind them: (b, n, H, d).

        They are `count` of each image, from the first on; in one step, and without a copy.
        """
        _, heads, d = rows.shape
        row, head, number = rows.stride()
        start = self.images.start * own + self.pairs.start + first
        shape, strides = (self.count, count, heads, d), ((own + self.each) * row, row, head, number)
        return rows.as_strided(shape, strides, rows.storage_offset() + start * row)


@dataclass(frozen=True)
class BatchLayout:
    """Which pairs a batch asks for; the pairs of one image stand together, in the order of the images."""

    slots: Tensor  # (T): where in the pool each pair's prompt is
    runs: tuple[EqualCountRun, ...]  # of all images, in their order

    @property
    def images(self) -> int:
        """How many images there are."""
        return int(self.runs[-1].images.stop) if self.runs else 0

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return self.slots.shape[0]

    def ends(self, own: int) -> list[int]:
        """Of each image, if it has so many rows of its own, the first, and then those of its pairs."""
        rows = []
        for run in self.runs:
            start = run.images.start * own + run.pairs.start
            for first in range(start, start + run.count * (own + run.each), own + run.each):
                rows += [first, *range(first + own, first + own + run.each)]
        return rows


def build_layout(sets: Sequence[Sequence[int]], device: torch.device) -> BatchLayout:
    """The layout of a batch where image b asks for the prompts `sets[b]` of the pool."""
    runs: list[EqualCountRun] = []
    pair = 0
    for image, names in enumerate(sets):
        each = len(names)
        last = runs[-1] if runs else None
        if last is not None and last.each == each:
            pairs = slice(last.pairs.start, pair + each)
            runs[-1] = EqualCountRun(slice(last.images.start, image + 1), pairs, each)
        else:
            runs.append(EqualCountRun(slice(image, image + 1), slice(pair, pair + each), each))
        pair += each
    return BatchLayout(to_device([slot for names in sets for slot in names], device), tuple(runs))


def to_device(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Whole numbers as a tensor on the device, without waiting for it."""
    here = torch.tensor(numbers, dtype=torch.long)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)
