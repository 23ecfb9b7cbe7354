"""The prompt cache: prompts in slots on the device, within a byte budget; the least recently used leave first.

A compute worker places the prompts of a batch and releases them after it. Several workers may do so at once, and share
prompts that they both use. Any thread may evict at any time; a prompt that a running batch uses leaves right after it.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from uuid import UUID
from weakref import WeakSet

from torch import Tensor

from alacarte.prompting.attention.logits import PromptSlot
from alacarte.prompting.attention.prompt_slots import PromptPool, PromptSlots
from alacarte.prompting.backbone.vit import Backbone
from registry.access.usable_prompts import UsablePrompt
from service.engine.prompt_loader import LoadedPrompt, PromptPredicate

DEFAULT_MEMORY = 5  # memory tokens per block, as in the paper; slots are wider while a wider prompt is cached


@dataclass(eq=False)
class CachedPrompt:
    """A prompt on the device."""

    digest: str
    slot: PromptSlot
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D), on the host
    owners: dict[UUID, UsablePrompt]
    head_bytes: int  # of its head and prototypes, which are outside its slot
    keep: bool  # False if it must leave after its first batch

    @property
    def slot_index(self) -> int | None:
        """Return the index of its slot; None for a head-only prompt."""
        return self.slot.slot

    @property
    def slot_count(self) -> int:
        """Return how many slots it takes: 0 or 1."""
        return int(self.slot_index is not None)


@dataclass
class BatchPlacement:
    """The prompts of a batch in their slots. Jobs are named by their index in the batch."""

    pool: PromptPool = field(init=False)  # all slots, as a pass reads them
    placed: list[int] = field(default_factory=list)  # jobs whose prompts are all on the device
    missing: list[int] = field(default_factory=list)  # jobs with a prompt that was evicted and must be loaded
    deferred: list[int] = field(default_factory=list)  # jobs that must wait until other prompts are released
    slots_too_wide: bool = False  # narrower, more slots would do, but another batch reads these
    prompts: dict[str, CachedPrompt] = field(default_factory=dict)
    copies: list[tuple[int, LoadedPrompt]] = field(default_factory=list)  # prompts to copy, and into which slot


class PromptCache:
    """The prompts of one backbone. Slots take half of the budget; heads and prototypes take the other half."""

    def __init__(self, backbone: Backbone, budget_bytes: int) -> None:
        self.backbone = backbone
        self._half_bytes = budget_bytes // 2
        self._placing = threading.Lock()  # one batch is placed at a time, and finds what others have copied
        self._lock = threading.Lock()
        self._prompts: dict[str, CachedPrompt] = {}  # the least recently used first
        self._use_counts: dict[CachedPrompt, int] = {}  # the number of running batches that use a prompt
        self._used_slots = self._used_head_bytes = 0  # by running batches
        self._in_memory: WeakSet[CachedPrompt] = WeakSet()  # including evicted ones that a result still references
        self._pinned: frozenset[str] = frozenset()
        self._head_bytes = 0
        self._free_slots: list[int] = []
        self.hits = self.misses = 0
        self._allocate_slots(DEFAULT_MEMORY)

    @property
    def capacity(self) -> int:
        """Return the number of slots."""
        return self._slots.count

    @property
    def max_pass_bytes(self) -> int:
        """Return how many bytes of prompts one picture may use in one pass."""
        return self._half_bytes

    @property
    def count(self) -> int:
        """Return the number of cached prompts."""
        return len(self._prompts)

    @property
    def size_bytes(self) -> int:
        """Return the size of the cached prompts."""
        with self._lock:
            slots = sum(prompt.slot_count for prompt in self._prompts.values())
            return slots * self._slot_bytes + self._head_bytes

    def missing(self, prompts: Iterable[UsablePrompt]) -> list[UsablePrompt]:
        """Return the prompts that are not cached, and mark the others as used now."""
        absent = []
        with self._lock:
            for prompt in prompts:
                cached = self._prompts.get(prompt.digest)
                # The same bytes of another prompt are loaded again, so that either owner can evict them.
                if cached is None or prompt.id not in cached.owners:
                    absent.append(prompt)
                    self.misses += 1
                else:
                    self._touch(prompt.digest)
                    self.hits += 1
        return absent

    def place(self, requests: Sequence[tuple[Collection[str], Mapping[str, LoadedPrompt]]]) -> BatchPlacement:
        """Put the prompts of a batch into slots. Each request names its digests and brings those that were loaded.

        The caller must release the placement.
        """
        with self._placing:
            placement = BatchPlacement()
            try:
                with self._lock:
                    if self._resize_slots((loaded for _, own in requests for loaded in own.values()), placement):
                        for index, (digests, loaded) in enumerate(requests):
                            self._place_one(index, digests, loaded, placement)
                        self._trim_heads()
                    else:
                        placement.deferred.extend(range(len(requests)))
                # No lock is needed to copy: no other thread touches a slot that is in use.
                for slot, prompt in placement.copies:
                    self._slots.put(slot, prompt.ready)
                slots = (cached.slot_index for cached in placement.prompts.values())
                placement.pool = self._slots.pool(slot for slot in slots if slot is not None)
                return placement
            except BaseException:
                self.release(placement, failed=True)
                raise

    def release(self, placement: BatchPlacement, failed: bool = False) -> None:
        """End a batch: drop prompts that were evicted meanwhile, and all of its prompts if it failed."""
        with self._lock:
            prompts = placement.prompts.values()
            unused = [prompt for prompt in prompts if self._end_use(prompt)]
            for prompt in prompts:
                if (failed or not prompt.keep) and self._is_cached(prompt):
                    self._remove(prompt)
            with ExitStack() as clearing:  # clear all slots, even if clearing one fails
                for prompt in unused:
                    if not self._is_cached(prompt):
                        clearing.callback(self._free_slot, prompt)

    def evict(self, matches: PromptPredicate) -> int:
        """Drop matching prompts and clear their slots, now or when the running batch ends. Return their number."""
        with self._lock:
            digests = [d for d, prompt in self._prompts.items() if any(map(matches, prompt.owners.values()))]
            for digest in digests:
                self._drop(digest)
        return len(digests)

    def has_in_memory(self, matches: PromptPredicate) -> bool:
        """Return whether anything of a matching prompt is in memory, even if it was evicted."""
        with self._lock:
            return any(any(map(matches, prompt.owners.values())) for prompt in self._in_memory)

    def pin(self, digests: Collection[str]) -> None:
        """Evict these prompts, and no others, only when nothing else can leave."""
        with self._lock:
            self._pinned = frozenset(digests)

    def _place_one(
        self, index: int, digests: Collection[str], loaded: Mapping[str, LoadedPrompt], placement: BatchPlacement
    ) -> None:
        new = [digest for digest in digests if digest not in placement.prompts]
        if any(digest not in self._prompts and digest not in loaded for digest in new):
            placement.missing.append(index)
            return
        slots, head_bytes = self._required(new, loaded)
        exceeds_bytes = self._used_head_bytes + head_bytes > self._half_bytes
        if self._used_slots + slots > self.capacity or exceeds_bytes:
            if self._use_counts:
                placement.deferred.append(index)
                return
            if slots > self.capacity:
                placement.missing.append(index)  # slots have become wider and fewer: the job must be split again
                return
        for digest in new:  # cached prompts first, so that a new one does not take their slot
            if digest in self._prompts:
                self._touch(digest)
                self._use(self._prompts[digest], placement)
        for digest in new:
            if digest not in self._prompts:
                self._add(loaded[digest], placement)
        for digest, prompt in loaded.items():
            placement.prompts[digest].owners.update(prompt.owners)
        placement.placed.append(index)

    def _required(self, digests: Sequence[str], loaded: Mapping[str, LoadedPrompt]) -> tuple[int, int]:
        """Return the slots and head bytes that these prompts take beyond those in use."""
        slots = head_bytes = 0
        for digest in digests:
            cached = self._prompts.get(digest)
            if cached is None:
                slots += loaded[digest].ready.token is not None
                head_bytes += _head_bytes(loaded[digest])
            elif cached not in self._use_counts:
                slots += cached.slot_count
                head_bytes += cached.head_bytes
        return slots, head_bytes

    def _add(self, loaded: LoadedPrompt, placement: BatchPlacement) -> None:
        slot = None
        if loaded.ready.token is not None:
            if not self._free_slots:
                self._drop_least_recently_used(with_slot=True)
            slot = self._free_slots.pop()
            placement.copies.append((slot, loaded))
        prompt = CachedPrompt(
            digest=loaded.digest,
            slot=PromptSlot(slot, loaded.ready.head_weight, loaded.ready.head_bias),
            labels=loaded.labels,
            prototypes=loaded.prototypes,
            owners=dict(loaded.owners),
            head_bytes=_head_bytes(loaded),
            keep=loaded.keep,
        )
        self._prompts[loaded.digest] = prompt
        self._in_memory.add(prompt)
        self._head_bytes += prompt.head_bytes
        self._use(prompt, placement)

    def _use(self, prompt: CachedPrompt, placement: BatchPlacement) -> None:
        if prompt not in self._use_counts:
            self._use_counts[prompt] = 0
            self._used_slots += prompt.slot_count
            self._used_head_bytes += prompt.head_bytes
        self._use_counts[prompt] += 1
        placement.prompts[prompt.digest] = prompt

    def _end_use(self, prompt: CachedPrompt) -> bool:
        """End one batch's use of a prompt; return whether it was the last."""
        self._use_counts[prompt] -= 1
        if self._use_counts[prompt]:
            return False
        del self._use_counts[prompt]
        self._used_slots -= prompt.slot_count
        self._used_head_bytes -= prompt.head_bytes
        return True

    def _is_cached(self, prompt: CachedPrompt) -> bool:
        return self._prompts.get(prompt.digest) is prompt

    def _trim_heads(self) -> None:
        """Bring heads and prototypes back within their half, as far as running batches allow."""
        while self._head_bytes > self._half_bytes and self._drop_least_recently_used(with_slot=False):
            pass

    def _drop_least_recently_used(self, with_slot: bool) -> bool:
        """Drop the least recently used prompt, a pinned one only if no other can leave; False if all are in use."""

        def idle() -> Iterator[str]:  # prompts in use were touched recently, so the first idle one is found soon
            for digest, prompt in self._prompts.items():
                if prompt not in self._use_counts and (prompt.slot_index is not None or not with_slot):
                    yield digest

        unpinned = (digest for digest in idle() if digest not in self._pinned)
        digest = next(unpinned, None) or next(idle(), None)
        if digest is not None:
            self._drop(digest)
        return digest is not None

    def _touch(self, digest: str) -> None:
        self._prompts[digest] = self._prompts.pop(digest)

    def _drop(self, digest: str) -> None:
        prompt = self._prompts[digest]
        self._remove(prompt)
        if prompt not in self._use_counts:
            self._free_slot(prompt)

    def _remove(self, prompt: CachedPrompt) -> None:
        """Remove a prompt from the index. Its slot is cleared when no batch uses it."""
        del self._prompts[prompt.digest]
        self._head_bytes -= prompt.head_bytes

    def _free_slot(self, prompt: CachedPrompt) -> None:
        if prompt.slot_index is not None:
            self._free_slots.append(prompt.slot_index)  # before it is cleared: `put` overwrites all of a slot
            self._slots.clear(prompt.slot_index)

    def _resize_slots(self, incoming: Iterable[LoadedPrompt], placement: BatchPlacement) -> bool:
        """Make slots as wide as the widest prompt that is cached or comes in. False if they are too narrow.

        Slots stay as they are while a batch reads them; if they are too wide, the placement says so.
        """
        widest = max((loaded.ready.memory for loaded in incoming), default=0)
        if self._slots.memory > DEFAULT_MEMORY:
            widest = max(widest, self._slots.widest)
        memory = max(widest, DEFAULT_MEMORY)
        if memory == self._slots.memory:
            return True
        if self._use_counts:
            placement.slots_too_wide = memory < self._slots.memory
            return placement.slots_too_wide
        self._move_to_slots(memory)
        return True

    def _move_to_slots(self, memory: int) -> None:
        """Move all prompts to slots of another width; if those are fewer, the least recently used leave."""
        while self._slots.count - len(self._free_slots) > self._count_slots(memory) and self._drop_least_recently_used(
            with_slot=True
        ):
            pass
        moving = [
            (prompt, self._slots.take_out(prompt.slot_index))
            for prompt in self._prompts.values()
            if prompt.slot_index is not None
        ]
        # If the allocation fails, the cache must be empty and consistent.
        prompts, self._prompts = self._prompts, {}
        head_bytes, self._head_bytes = self._head_bytes, 0
        self._free_slots = list(range(self._slots.count))
        self._allocate_slots(memory)
        for prompt, ready in moving:
            slot = self._free_slots.pop()
            self._slots.put(slot, ready)
            prompt.slot = replace(prompt.slot, slot=slot)
        self._prompts, self._head_bytes = prompts, head_bytes

    def _count_slots(self, memory: int) -> int:
        return max(1, self._half_bytes // PromptSlots.bytes_each(self.backbone, memory))

    def _allocate_slots(self, memory: int) -> None:
        self._slot_bytes = PromptSlots.bytes_each(self.backbone, memory)
        self._slots = PromptSlots(self.backbone, self._count_slots(memory), memory)
        self._free_slots = list(range(self._slots.count))


def _head_bytes(loaded: LoadedPrompt) -> int:
    tensors = (loaded.ready.head_weight, loaded.ready.head_bias, loaded.prototypes)
    return sum(tensor.nbytes for tensor in tensors)
