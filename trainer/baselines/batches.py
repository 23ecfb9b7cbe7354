"""Batches of pictures as pixels, for whatever cannot learn from kept states; decoded ahead by a few threads."""

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.prompting.backbone.preprocess import Preprocessing
from trainer.prefetch import prefetch
from trainer.threads import cores
from trainer.views import View

DECODERS = 4


@dataclass(frozen=True)
class PixelBatch:
    """A batch of views and their pixels."""

    views: Sequence[View]
    images: Tensor  # (B, 3, S, S), float32 on the CPU


def load_batches(batches: Iterable[Sequence[View]], preprocessing: Preprocessing) -> Generator[PixelBatch, None, None]:
    """The pixels of each batch, in order; the next batches are decoded meanwhile."""
    decoders = ThreadPoolExecutor(min(DECODERS, cores()), "decode")

    def decode(batch: Sequence[View]) -> list[Future[Tensor]]:
        return [decoders.submit(view.load, preprocessing) for view in batch]

    try:
        for views, jobs in prefetch(batches, decode):
            yield PixelBatch(views, torch.stack([job.result() for job in jobs]))
    finally:
        decoders.shutdown(cancel_futures=True)
