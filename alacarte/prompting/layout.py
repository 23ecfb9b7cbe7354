"""Which (image, prompt) pairs a batch asks for, and where they stand."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# B images, T pairs, P pairs of one image


@dataclass(frozen=True)
class Run:
    """Consecutive images that have equally many pairs, and where those pairs stand."""

    images: slice
    pairs: slice
    each: int  # P, the pairs of each image


@dataclass(frozen=True)
class Layout:
    """Which pairs a batch asks for; the pairs of one image stand together, in the order of the images."""

    slots: Tensor  # (T): where in the pool each pair's prompt is
    runs: tuple[Run, ...]

    @property
    def pairs(self) -> int:
        return self.slots.shape[0]


def lay_out(sets: Sequence[Sequence[int]], device: torch.device) -> Layout:
    """The layout of a batch where image b asks for the prompts `sets[b]` of the pool."""
    runs: list[Run] = []
    pair = 0
    for image, names in enumerate(sets):
        each = len(names)
        last = runs[-1] if runs else None
        if last is not None and last.each == each:
            pairs = slice(last.pairs.start, pair + each)
            runs[-1] = Run(slice(last.images.start, image + 1), pairs, each)
        else:
            runs.append(Run(slice(image, image + 1), slice(pair, pair + each), each))
        pair += each
    slots = send([slot for names in sets for slot in names], device)
    return Layout(slots, tuple(run for run in runs if run.each))


def send(numbers: Sequence[int], device: torch.device) -> Tensor:
    """Whole numbers as a tensor on the device, without waiting for it."""
    here = torch.tensor(numbers, dtype=torch.long)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)
