"""The state cache: what prompts can see of pictures, computed once and kept within a byte budget.

A picture's states are always computed in a pass of the same shape, which leaves the same bits whoever else is in
it, and always rounded to half precision, kept or not. So the bytes of a prompt depend neither on the budget nor on
who else is trained from the same cache.
"""

import errno
import mmap
import os
import tempfile
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import torch
from torch import Tensor

from alacarte.prompting.attention.train_forward import compute_states, state_shape
from alacarte.prompting.backbone.vit import Backbone
from trainer.errors import ScratchFull, StatesNotFinite
from trainer.prefetch import prefetch
from trainer.threads import TorchThreadGuard, cores, use_one_thread
from trainer.views import Key, View

# B pictures, L blocks, H heads, N backbone tokens, d width of a head, D width

STATE_DTYPE = torch.float16
# Pictures that are computed in one pass. A matrix product's last bits may depend on how many rows it has, so it
# is always this many; whose rows they are and in which order makes no difference, which a test proves on the CPU.
TOGETHER = 2
TOGETHER_ON_ACCELERATOR = 16
HALF_INFINITY = 0x7C00  # the exponent bits that only infinities and NaNs have set all

State = tuple[Tensor, Tensor]  # (L, 2, H, N, d) keys and values, (D) finished class token


@dataclass(frozen=True)
class PendingState:
    """A view's place among those that are computed together."""

    computed: Future[list[State]]
    place: int

    def result(self) -> State:
        return self.computed.result()[self.place]


Jobs = Mapping[Key, PendingState]


@dataclass(frozen=True)
class CachedStates:
    """What training needs of a batch of pictures."""

    views: Sequence[View]
    embedding: Tensor  # (B, D) finished class tokens
    states: Sequence[Tensor]  # B of (L, 2, H, N, d), keys and values in half precision


class StateCache:
    """States of views, computed on demand; the first ones that fit are kept until the cache is closed.

    On a CPU every core takes pictures of its own, with one thread each: faster than all cores on one picture,
    unhurt by a busy neighbour, and the same bits on any number of cores.
    """

    def __init__(self, backbone: Backbone, budget_bytes: int = 0, views: int = 0, scratch: Path | None = None) -> None:
        """Make room for `views` views, or as many as `budget_bytes` allow, in a nameless file in `scratch`."""
        if budget_bytes < 0:
            raise ScratchFull(f"a state cache cannot have {budget_bytes} bytes: allow 0 or more")
        self.backbone = backbone
        self._shape = state_shape(backbone)
        bytes_each = prod(self._shape) * STATE_DTYPE.itemsize
        self._together = TOGETHER if backbone.device.type == "cpu" else TOGETHER_ON_ACCELERATOR
        self._room = min(views, budget_bytes // bytes_each)
        self._slots: dict[Key, int] = {}
        self._keeping = threading.Lock()
        self._file, kept = _map_file(self._room * bytes_each, scratch)
        self._states = kept.view(self._room, *self._shape)
        self._embeddings = torch.empty(self._room, backbone.width)
        TorchThreadGuard.take()
        self._is_open = True
        self._cores = ThreadPoolExecutor(cores(), "states", initializer=use_one_thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the room; the file never had a name, so not even a killed process leaves it behind."""
        self._cores.shutdown(cancel_futures=True)
        self._slots.clear()
        self._states = torch.empty(0)
        if self._file is not None:
            self._file.close()
        if self._is_open:
            self._is_open = False
            TorchThreadGuard.give_back()

    @property
    def kept(self) -> int:
        """How many views are kept."""
        return len(self._slots)

    @property
    def is_full(self) -> bool:
        """Whether no further view will be kept."""
        return len(self._slots) >= self._room

    def walk(self, batches: Iterable[Sequence[View]]) -> Generator[CachedStates, None, None]:
        """What is seen of each batch, in order; the next one is computed meanwhile."""
        running: set[PendingState] = set()

        def start(batch: Sequence[View]) -> Jobs:
            jobs = self._start(batch)
            running.update(jobs.values())
            return jobs

        try:
            for batch, jobs in prefetch(batches, start):
                seen = self._see(batch, jobs)
                running.difference_update(jobs.values())
                yield seen
        finally:
            for job in running:  # whoever stops early wants no more of it
                job.computed.cancel()

    def _start(self, batch: Sequence[View]) -> Jobs:
        """Jobs for those views of the batch that are not kept."""
        missing = list({view.key: view for view in batch if view.key not in self._slots}.values())
        jobs: dict[Key, PendingState] = {}
        for start in range(0, len(missing), self._together):
            views = missing[start : start + self._together]
            computed = self._cores.submit(self._compute, views)
            jobs.update({view.key: PendingState(computed, place) for place, view in enumerate(views)})
        return jobs

    def _compute(self, views: Sequence[View]) -> list[State]:
        backbone = self.backbone
        images = [view.load(backbone.preprocessing) for view in views]
        images += [images[-1]] * (self._together - len(images))  # the shape never changes, so the bits do not either
        states = torch.empty(self._together, *self._shape, dtype=STATE_DTYPE, device=backbone.device)
        embedding = compute_states(backbone, torch.stack(images).to(backbone.device, backbone.dtype), states).cpu()
        largest = (states.view(torch.int16) & HALF_INFINITY).flatten(1).amax(1)  # forty times as fast as isfinite
        for view, exponent in zip(views, largest.tolist(), strict=False):
            if exponent == HALF_INFINITY:
                raise StatesNotFinite(
                    f"what {backbone.architecture} sees in {view.sample.name} does not fit half precision: "
                    "use another backbone, or leave the picture out"
                )
        return list(zip(states.cpu(), embedding, strict=True))

    def _see(self, batch: Sequence[View], jobs: Jobs) -> CachedStates:
        for key, job in jobs.items():
            self._keep(key, *job.result())
        found = [self._find(view.key, jobs) for view in batch]
        return CachedStates(batch, torch.stack([embedding for _, embedding in found]), [states for states, _ in found])

    def _find(self, key: Key, jobs: Jobs) -> State:
        slot = self._slots.get(key)
        return jobs[key].result() if slot is None else (self._states[slot], self._embeddings[slot])

    def _keep(self, key: Key, states: Tensor, embedding: Tensor) -> None:
        with self._keeping:
            slot = len(self._slots)
            if slot < self._room and key not in self._slots:
                self._states[slot], self._embeddings[slot] = states, embedding
                self._slots[key] = slot


def _map_file(size: int, scratch: Path | None) -> tuple[IO[bytes] | None, Tensor]:
    """A nameless file of `size` bytes as a flat tensor, its room on disk taken now and not when it is too late."""
    if not size:
        return None, torch.empty(0, dtype=STATE_DTYPE)
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    file = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115  # lives as long as the cache
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # macOS
            file.truncate(size)
        view = mmap.mmap(file.fileno(), size)
    except OSError as error:
        file.close()
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        where = scratch or Path(tempfile.gettempdir())
        raise ScratchFull(
            f"no room for a state cache of {size / 1e9:.1f} GB in {where}: "
            "allow fewer bytes, or name another scratch folder"
        ) from error
    return file, torch.frombuffer(view, dtype=STATE_DTYPE)
