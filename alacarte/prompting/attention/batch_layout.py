"""The layout of a batch: its (image, prompt) pairs, whose rows lie behind those of their image."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# B images, b images of a run, n rows of an image, T pairs, P pairs of one image, R rows, H heads, d width of a head


@dataclass(frozen=True)
class EqualCountRun:
    """Consecutive images with the same number of pairs."""

    images: slice  # of all images
    pairs: slice  # of all pairs
    pairs_per_image: int  # P

    @property
    def image_count(self) -> int:
        """The number of images, b."""
        return int(self.images.stop - self.images.start)

    def view(self, rows: Tensor, image_rows: int, first: int, count: int) -> Tensor:
        """Return rows (b, count, H, d) of the run's images as a view of rows (R, H, d), without a copy.

        Each image has `image_rows` rows of its own, followed by those of its pairs; `first` counts from its first row.
        """
        _, heads, d = rows.shape
        row_stride, head_stride, stride = rows.stride()
        start = self.images.start * image_rows + self.pairs.start + first
        shape = (self.image_count, count, heads, d)
        strides = ((image_rows + self.pairs_per_image) * row_stride, row_stride, head_stride, stride)
        return rows.as_strided(shape, strides, rows.storage_offset() + start * row_stride)


@dataclass(frozen=True)
class BatchLayout:
    """The pairs of a batch, in the order of their images."""

    slots: Tensor  # (T): the slot of each pair's prompt in the pool
    runs: tuple[EqualCountRun, ...]  # all images, in order

    @property
    def image_count(self) -> int:
        """The number of images, B."""
        return int(self.runs[-1].images.stop) if self.runs else 0

    @property
    def pair_count(self) -> int:
        """The number of pairs, T."""
        return self.slots.shape[0]

    def class_and_pair_rows(self, image_rows: int) -> list[int]:
        """Return for each image the index of its first row, the class token, followed by those of its pairs."""
        indices = []
        for run in self.runs:
            start = run.images.start * image_rows + run.pairs.start
            step = image_rows + run.pairs_per_image
            for first in range(start, start + run.image_count * step, step):
                indices += [first, *range(first + image_rows, first + step)]
        return indices


def build_layout(sets: Sequence[Sequence[int]], device: torch.device) -> BatchLayout:
    """Return the layout of a batch in which image b is paired with the prompts in the slots `sets[b]`."""
    runs: list[EqualCountRun] = []
    pair = 0
    for image, slots in enumerate(sets):
        count = len(slots)
        last = runs[-1] if runs else None
        if last is not None and last.pairs_per_image == count:
            pairs = slice(last.pairs.start, pair + count)
            runs[-1] = EqualCountRun(slice(last.images.start, image + 1), pairs, count)
        else:
            runs.append(EqualCountRun(slice(image, image + 1), slice(pair, pair + count), count))
        pair += count
    return BatchLayout(to_device([slot for slots in sets for slot in slots], device), tuple(runs))


def to_device(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Return whole numbers as a tensor on the device, without waiting for it."""
    tensor = torch.tensor(numbers, dtype=torch.long)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
