"""The state cache: the backbone's keys and values of pictures, computed once and kept within a byte budget.

States are always computed in a pass of the same shape, so that their bits do not depend on the other pictures of the
pass, and are always rounded to half precision, kept or not. So the bytes of a prompt depend neither on the budget nor
on what else is trained from the same cache.
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
from typing import IO, Self

import torch
from torch import Tensor

from alacarte.prompting.attention.train_forward import compute_states, state_shape
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.threads import TorchThreadGuard, available_cores, use_one_thread
from trainer.errors import ScratchFull, StatesNotFinite
from trainer.views import Key, View, prefetch

# B pictures, L blocks, H heads, N backbone tokens, d width of a head, D width

STATE_DTYPE = torch.float16
# Pictures in one pass. The last bits of a matrix product may depend on its number of rows, so it is always the same;
# they do not depend on the other rows or their order, which a test shows on the CPU.
PASS_PICTURES = 2
PASS_PICTURES_ON_ACCELERATOR = 16
HALF_INFINITY = 0x7C00  # the exponent bits of float16, all set only in infinities and NaNs

State = tuple[Tensor, Tensor]  # (L, 2, H, N, d) keys and values, (D) finished class token


@dataclass(frozen=True)
class PendingState:
    """The states of one view, at an index of the pass that computes them."""

    computed: Future[list[State]]
    index: int

    def result(self) -> State:
        return self.computed.result()[self.index]


PendingStates = Mapping[Key, PendingState]


@dataclass(frozen=True)
class CachedStates:
    """The states of a batch of views."""

    views: Sequence[View]
    embedding: Tensor  # (B, D) finished class tokens
    states: Sequence[Tensor]  # B of (L, 2, H, N, d), keys and values in half precision


class StateCache:
    """States of views, computed on demand; the first ones that fit are kept until the cache is closed.

    On a CPU every core computes pictures of its own with one thread. This is faster than all cores on one picture, and
    gives the same bits on any number of cores.
    """

    def __init__(self, backbone: Backbone, budget_bytes: int = 0, views: int = 0, scratch: Path | None = None) -> None:
        """Reserve space for `views` views, or as many as `budget_bytes` allow, in an unnamed file in `scratch`."""
        if budget_bytes < 0:
            raise ScratchFull(f"a state cache cannot have {budget_bytes} bytes: allow 0 or more")
        self.backbone = backbone
        self._shape = state_shape(backbone)
        bytes_each = prod(self._shape) * STATE_DTYPE.itemsize
        self._pass_pictures = PASS_PICTURES if backbone.device.type == "cpu" else PASS_PICTURES_ON_ACCELERATOR
        self._capacity = min(views, budget_bytes // bytes_each)
        self._slots: dict[Key, int] = {}
        self._lock = threading.Lock()
        self._file, flat = _map_file(self._capacity * bytes_each, scratch)
        self._states = flat.view(self._capacity, *self._shape)
        self._embeddings = torch.empty(self._capacity, backbone.width)
        TorchThreadGuard.acquire()
        self._is_open = True
        self._threads = ThreadPoolExecutor(available_cores(), "states", initializer=use_one_thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the space; the file has no name, so even a killed process leaves nothing behind."""
        self._threads.shutdown(cancel_futures=True)
        self._slots.clear()
        self._states = torch.empty(0)
        if self._file is not None:
            self._file.close()
        if self._is_open:
            self._is_open = False
            TorchThreadGuard.release()

    @property
    def kept_views(self) -> int:
        """The number of views that are kept."""
        return len(self._slots)

    @property
    def is_full(self) -> bool:
        """Whether no further view will be kept."""
        return len(self._slots) >= self._capacity

    def iter_states(self, batches: Iterable[Sequence[View]]) -> Generator[CachedStates, None, None]:
        """Yield the states of each batch, in order, and compute those of the next batch meanwhile."""
        running: set[PendingState] = set()

        def start(batch: Sequence[View]) -> PendingStates:
            pending = self._start(batch)
            running.update(pending.values())
            return pending

        try:
            for batch, pending in prefetch(batches, start):
                states = self._collect(batch, pending)
                running.difference_update(pending.values())
                yield states
        finally:
            for left in running:  # the caller stopped early
                left.computed.cancel()

    def _start(self, batch: Sequence[View]) -> PendingStates:
        """Start to compute the views of the batch that are not kept."""
        missing = list({view.key: view for view in batch if view.key not in self._slots}.values())
        pending: dict[Key, PendingState] = {}
        for start in range(0, len(missing), self._pass_pictures):
            views = missing[start : start + self._pass_pictures]
            computed = self._threads.submit(self._compute, views)
            pending.update({view.key: PendingState(computed, index) for index, view in enumerate(views)})
        return pending

    def _compute(self, views: Sequence[View]) -> list[State]:
        backbone = self.backbone
        images = [view.load(backbone.preprocessing) for view in views]
        images += [images[-1]] * (self._pass_pictures - len(images))  # a constant shape gives constant bits
        states = torch.empty(self._pass_pictures, *self._shape, dtype=STATE_DTYPE, device=backbone.device)
        embedding = compute_states(backbone, torch.stack(images).to(backbone.device, backbone.dtype), states).cpu()
        largest = (states.view(torch.int16) & HALF_INFINITY).flatten(1).amax(1)  # forty times as fast as isfinite
        for view, exponent in zip(views, largest.tolist(), strict=False):
            if exponent == HALF_INFINITY:
                raise StatesNotFinite(
                    f"the states of {view.sample.name} on {backbone.architecture} do not fit half precision: "
                    "use another backbone, or leave the picture out"
                )
        return list(zip(states.cpu(), embedding, strict=True))

    def _collect(self, batch: Sequence[View], pending: PendingStates) -> CachedStates:
        for key, state in pending.items():
            self._store(key, *state.result())
        found = [self._find(view.key, pending) for view in batch]
        return CachedStates(batch, torch.stack([embedding for _, embedding in found]), [states for states, _ in found])

    def _find(self, key: Key, pending: PendingStates) -> State:
        slot = self._slots.get(key)
        return pending[key].result() if slot is None else (self._states[slot], self._embeddings[slot])

    def _store(self, key: Key, states: Tensor, embedding: Tensor) -> None:
        with self._lock:
            slot = len(self._slots)
            if slot < self._capacity and key not in self._slots:
                self._states[slot], self._embeddings[slot] = states, embedding
                self._slots[key] = slot


def _map_file(size: int, scratch: Path | None) -> tuple[IO[bytes] | None, Tensor]:
    """Map an unnamed file of `size` bytes as a flat tensor; its space on disk is allocated now, not on first use."""
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
            f"no space for a state cache of {size / 1e9:.1f} GB in {where}: "
            "allow fewer bytes, or name another scratch folder"
        ) from error
    return file, torch.frombuffer(view, dtype=STATE_DTYPE)
