"""One pass of a batch: on a CPU in parts side by side, as soon as there are two pictures; a lone one by all threads.

Threads that share a product wait for each other at its end, and a pass has hundreds of products; parts of a batch wait
for each other once.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from alacarte.prompting.backbone import Backbone
from alacarte.prompting.logits import Seat, pass_logits
from alacarte.prompting.pool import PromptPool
from service.engine.threads import compute_with

MAX_PARTS = 4  # whose steps in Python do not keep each other waiting yet

Found = tuple[list[dict[str, Tensor]], Tensor]  # as `pass_logits` has it


class Passes:
    """So many threads of a CPU, or an accelerator; used by one thread, which computes with all of them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._beside = ThreadPoolExecutor(MAX_PARTS, "part")

    def __call__(
        self,
        backbone: Backbone,
        images: Sequence[Tensor],
        pool: PromptPool,
        sets: Sequence[Sequence[str]],
        seats: Mapping[str, Seat],
    ) -> Found:
        """As `pass_logits` of all images (3, S, S) at once, but for the last bits; when it raises, nothing runs on."""
        parts = parts_of(len(images), self._threads) if backbone.device.type == "cpu" else [slice(None)]
        if len(parts) == 1:
            return pass_logits(backbone, stack(images, backbone.device), pool, sets, seats)

        def compute(part: slice) -> Found:
            compute_with(self._threads // len(parts))
            return pass_logits(backbone, stack(images[part], backbone.device), pool, sets[part], seats)

        futures: list[Future[Found]] = [self._beside.submit(compute, part) for part in parts]
        try:
            wait(futures)
            found = list(map(Future.result, futures))
        finally:
            del futures  # an error knows this frame: if it were known here, both would stay, with the pictures
        return [own for logits, _ in found for own in logits], torch.cat([embedding for _, embedding in found])

    def stop(self) -> None:
        """Its threads have ended."""
        self._beside.shutdown()


def parts_of(images: int, threads: int) -> list[slice]:
    """The images in as many parts as there are threads for, of sizes that differ by one at most."""
    count = min(threads, MAX_PARTS, images)
    ends = accumulate((images // count + (number < images % count) for number in range(count)), initial=0)
    return [slice(begin, end) for begin, end in pairwise(ends)]


def stack(images: Sequence[Tensor], device: torch.device) -> Tensor:
    """The images as one (B, 3, S, S), from where the device fetches them without anybody waiting."""
    if device.type != "cuda":
        return torch.stack(list(images))
    first = images[0]
    batch = torch.empty(len(images), *first.shape, dtype=first.dtype, pin_memory=True)
    return torch.stack(list(images), out=batch)
