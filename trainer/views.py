"""Views: a picture as training uses it, as it is served or augmented; and batches of them, loaded ahead.

A view's pixels depend on its key alone.
"""

import hashlib
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from alacarte.prompting.augment import rand_augment
from alacarte.prompting.backbone.preprocess import Preprocessing, decode
from alacarte.prompting.errors import PictureDecodeError
from alacarte.prompting.threads import available_cores
from registry.datasets.dataset import LabelledPicture

# B pictures, S side of a picture

DECODE_THREADS = 4

Key = tuple[str, int | None, int]  # digest, number of the view, seed
Item = TypeVar("Item")
Started = TypeVar("Started")


@dataclass(frozen=True)
class View:
    """One view of a sample; number None is the picture as it is served, any other number is augmented."""

    sample: LabelledPicture
    number: int | None = None
    seed: int = 0

    @property
    def key(self) -> Key:
        """All that the pixels depend on."""
        return self.sample.digest, self.number, 0 if self.number is None else self.seed

    def load(self, preprocessing: Preprocessing) -> Tensor:
        """Return the pixels (3, S, S) that the backbone receives."""
        image = decode(self._read())
        if self.number is None:
            return preprocessing(image)
        seed = hashlib.sha256(f"{self.seed} {self.number} {self.sample.digest}".encode()).digest()
        return preprocessing.tensor(rand_augment(preprocessing.fit(image), random.Random(seed)))

    def _read(self) -> bytes:
        """Read the sample's file and compare it with the digest."""
        try:
            data = self.sample.path.read_bytes()
        except OSError as error:
            raise PictureDecodeError(f"{self.sample.path} cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != self.sample.digest:
            raise PictureDecodeError(f"{self.sample.path} has changed since it was first read: start again")
        return data


@dataclass(frozen=True)
class PixelBatch:
    """A batch of views and their pixels."""

    views: Sequence[View]
    images: Tensor  # (B, 3, S, S), float32 on the CPU


def served_batches(samples: Sequence[LabelledPicture], size: int) -> Iterator[list[View]]:
    """Yield the samples as they are served, in order, `size` at a time."""
    for start in range(0, len(samples), size):
        yield [View(sample) for sample in samples[start : start + size]]


def load_batches(batches: Iterable[Sequence[View]], preprocessing: Preprocessing) -> Generator[PixelBatch, None, None]:
    """Yield the pixels of each batch, in order, and decode the next batch meanwhile."""
    threads = ThreadPoolExecutor(min(DECODE_THREADS, available_cores()), "decode")

    def submit(batch: Sequence[View]) -> list[Future[Tensor]]:
        return [threads.submit(view.load, preprocessing) for view in batch]

    try:
        for views, pixels in prefetch(batches, submit):
            yield PixelBatch(views, torch.stack([image.result() for image in pixels]))
    finally:
        threads.shutdown(cancel_futures=True)


def prefetch(items: Iterable[Item], start: Callable[[Item], Started]) -> Iterator[tuple[Item, Started]]:
    """Yield every item with the result of `start(item)`, which is called before the previous item is yielded."""
    current: tuple[Item, Started] | None = None
    for item in items:
        following = item, start(item)
        if current is not None:
            yield current
        current = following
    if current is not None:
        yield current
