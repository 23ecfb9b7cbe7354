"""The prompts that live on the device: slots within a byte budget, which the least recently used leave first.

Whoever computes seats the prompts of a batch and releases them after it; several may do so at once, and share what
they both use. Other threads may look and evict at any time; what a running batch uses then leaves right after it.
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
from registry.access.usable_set import UsablePrompt
from service.engine.prompt_loader import LoadedPrompt, PromptPredicate

USUAL_MEMORY = 5  # memory tokens a block: slots are as wide as the paper's prompts, unless a wider one is here


@dataclass(eq=False)
class CachedPrompt:
    """A prompt that a pass finds on the device."""

    digest: str
    seat: PromptSlot
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D), on the host
    owners: dict[UUID, UsablePrompt]
    beside_bytes: int  # what it takes besides its slot
    stays: bool


@dataclass
class BatchPlacement:
    """Who of a batch found all their prompts, by their place in it, and who did not."""

    seated: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)  # a prompt has left: fetch it, and ask again
    later: list[int] = field(default_factory=list)  # the slots are full: after this batch, or after another
    is_cramped: bool = False  # slots are wider and fewer than need be, since another batch reads them
    residents: dict[str, CachedPrompt] = field(default_factory=dict)
    entering: list[tuple[int, LoadedPrompt]] = field(default_factory=list)  # what must be put into which slot


class PromptCache:
    """Slots of one backbone, half of the budget; heads and prototypes have the other half."""

    def __init__(self, backbone: Backbone, budget_bytes: int) -> None:
        self.backbone = backbone
        self._half_bytes = budget_bytes // 2
        self._seating = threading.Lock()  # who is seated finds in the slots what others have just put there
        self._lock = threading.Lock()
        self._residents: dict[str, CachedPrompt] = {}  # the longest unused first
        self._uses: dict[CachedPrompt, int] = {}  # by how many running batches, of those in use
        self._used_slots = self._used_beside_bytes = 0  # by running batches
        self._alive: WeakSet[CachedPrompt] = (
            WeakSet()
        )  # also those that have left, and whose heads somebody still reads
        self._pinned: frozenset[str] = frozenset()
        self._beside_bytes = 0
        self._free: list[int] = []  # slots
        self.hits = self.misses = 0
        self._lay_slots(USUAL_MEMORY)

    @property
    def capacity(self) -> int:
        """How many attending prompts fit at once."""
        return self._slots.count

    @property
    def pass_bytes(self) -> int:
        """How many bytes of prompts one picture may ask for in one pass."""
        return self._half_bytes

    @property
    def count(self) -> int:
        """How many prompts are here."""
        return len(self._residents)

    @property
    def size_bytes(self) -> int:
        """How many bytes the prompts that are here take."""
        with self._lock:
            slots = sum(resident.seat.slot is not None for resident in self._residents.values())
            return slots * self._slot_bytes + self._beside_bytes

    def missing(self, prompts: Iterable[UsablePrompt]) -> list[UsablePrompt]:
        """Those of the prompts that are not here; the others count as used now."""
        absent = []
        with self._lock:
            for prompt in prompts:
                resident = self._residents.get(prompt.digest)
                # The same bytes in another's name are fetched again: then both names can evict them.
                if resident is None or prompt.id not in resident.owners:
                    absent.append(prompt)
                    self.misses += 1
                else:
                    self._touch(prompt.digest)
                    self.hits += 1
        return absent

    def seat(
        self, asked: Sequence[tuple[Collection[str], Mapping[str, LoadedPrompt]]]
    ) -> tuple[BatchPlacement, PromptPool]:
        """Seats for a batch: for each picture the digests it asks for, and those of them that it has fetched."""
        with self._seating:
            seating = BatchPlacement()
            try:
                with self._lock:
                    if self._fit_slots((loaded for _, fetched in asked for loaded in fetched.values()), seating):
                        for place, (digests, fetched) in enumerate(asked):
                            self._seat_one(place, digests, fetched, seating)
                        self._trim()
                    else:
                        seating.later.extend(range(len(asked)))
                # Copied without the lock: nobody else touches a slot that is in use.
                for slot, loaded in seating.entering:
                    self._slots.put(slot, loaded.ready)
                slots = (resident.seat.slot for resident in seating.residents.values())
                return seating, self._slots.pool(slot for slot in slots if slot is not None)
            except BaseException:
                self.release(seating, failed=True)
                raise

    def release(self, seating: BatchPlacement, failed: bool = False) -> None:
        """The batch is over: what was evicted meanwhile leaves, and all that it used if nobody knows what it left."""
        with self._lock:
            residents = seating.residents.values()
            ended = [resident for resident in residents if self._end_use(resident)]
            for resident in residents:
                if (failed or not resident.stays) and self._is_here(resident):
                    self._drop(resident)
            with ExitStack() as clearing:  # all of them, though one should fail
                for resident in ended:
                    if not self._is_here(resident):
                        clearing.callback(self._free_slot, resident)

    def evict(self, matches: PromptPredicate) -> int:
        """Everything that matches has left, and its slot is cleared; or will be when the running batch ends."""
        with self._lock:
            gone = [d for d, resident in self._residents.items() if any(map(matches, resident.owners.values()))]
            for digest in gone:
                self._leave(digest)
        return len(gone)

    def has_in_memory(self, matches: PromptPredicate) -> bool:
        """Whether something of a prompt that matches is here, though it has left for all who come."""
        with self._lock:
            return any(any(map(matches, resident.owners.values())) for resident in self._alive)

    def pin(self, digests: Collection[str]) -> None:
        """Once here, these stay while any other can leave instead; nothing else is pinned."""
        with self._lock:
            self._pinned = frozenset(digests)

    def _seat_one(
        self, place: int, digests: Collection[str], fetched: Mapping[str, LoadedPrompt], seating: BatchPlacement
    ) -> None:
        new = [digest for digest in digests if digest not in seating.residents]
        if any(digest not in self._residents and digest not in fetched for digest in new):
            seating.missed.append(place)
            return
        slots, beside_bytes = self._need(new, fetched)
        is_too_much = self._used_beside_bytes + beside_bytes > self._half_bytes
        if self._used_slots + slots > self.capacity or is_too_much:
            if self._uses:
                seating.later.append(place)
                return
            if slots > self.capacity:
                seating.missed.append(place)  # the slots have become wider and fewer: ask for less at once
                return
        for digest in new:  # first those who are here, so that nobody who enters takes their slot
            if digest in self._residents:
                self._touch(digest)
                self._use(self._residents[digest], seating)
        for digest in new:
            if digest not in self._residents:
                self._enter(fetched[digest], seating)
        for digest, loaded in fetched.items():
            seating.residents[digest].owners.update(loaded.owners)
        seating.seated.append(place)

    def _need(self, new: Sequence[str], fetched: Mapping[str, LoadedPrompt]) -> tuple[int, int]:
        """The slots and the bytes beside them that these prompts take, beyond those in use."""
        slots = beside_bytes = 0
        for digest in new:
            resident = self._residents.get(digest)
            if resident is None:
                slots += fetched[digest].ready.token is not None
                beside_bytes += _beside_bytes(fetched[digest])
            elif resident not in self._uses:
                slots += resident.seat.slot is not None
                beside_bytes += resident.beside_bytes
        return slots, beside_bytes

    def _enter(self, loaded: LoadedPrompt, seating: BatchPlacement) -> None:
        slot = None
        if loaded.ready.token is not None:
            if not self._free:
                self._leave_least_used(with_slot=True)
            slot = self._free.pop()
            seating.entering.append((slot, loaded))
        resident = CachedPrompt(
            digest=loaded.digest,
            seat=PromptSlot(slot, loaded.ready.head_weight, loaded.ready.head_bias),
            labels=loaded.labels,
            prototypes=loaded.prototypes,
            owners=dict(loaded.owners),
            beside_bytes=_beside_bytes(loaded),
            stays=loaded.stays,
        )
        self._residents[loaded.digest] = resident
        self._alive.add(resident)
        self._beside_bytes += resident.beside_bytes
        self._use(resident, seating)

    def _use(self, resident: CachedPrompt, seating: BatchPlacement) -> None:
        if resident not in self._uses:
            self._uses[resident] = 0
            self._used_slots += resident.seat.slot is not None
            self._used_beside_bytes += resident.beside_bytes
        self._uses[resident] += 1
        seating.residents[resident.digest] = resident

    def _end_use(self, resident: CachedPrompt) -> bool:
        """One batch less uses it; True if it was the last."""
        self._uses[resident] -= 1
        if self._uses[resident]:
            return False
        del self._uses[resident]
        self._used_slots -= resident.seat.slot is not None
        self._used_beside_bytes -= resident.beside_bytes
        return True

    def _is_here(self, resident: CachedPrompt) -> bool:
        return self._residents.get(resident.digest) is resident

    def _trim(self) -> None:
        """Heads and prototypes are back within their half, as far as running batches can spare them."""
        while self._beside_bytes > self._half_bytes and self._leave_least_used(with_slot=False):
            pass

    def _leave_least_used(self, with_slot: bool) -> bool:
        """Whoever was used longest ago has left, the pinned only for want of others; False if all are in use."""

        def idle() -> Iterator[str]:  # those in use were touched lately, so that the first is found soon
            for digest, resident in self._residents.items():
                if resident not in self._uses and (resident.seat.slot is not None or not with_slot):
                    yield digest

        unpinned = (digest for digest in idle() if digest not in self._pinned)
        digest = next(unpinned, None) or next(idle(), None)
        if digest is not None:
            self._leave(digest)
        return digest is not None

    def _touch(self, digest: str) -> None:
        self._residents[digest] = self._residents.pop(digest)

    def _leave(self, digest: str) -> None:
        resident = self._residents[digest]
        self._drop(resident)
        if resident not in self._uses:
            self._free_slot(resident)

    def _drop(self, resident: CachedPrompt) -> None:
        """Nobody who comes finds it; its slot is cleared by whoever sees that no batch uses it."""
        del self._residents[resident.digest]
        self._beside_bytes -= resident.beside_bytes

    def _free_slot(self, resident: CachedPrompt) -> None:
        if resident.seat.slot is not None:
            self._free.append(resident.seat.slot)  # first: whoever comes into it overwrites all of it
            self._slots.clear(resident.seat.slot)

    def _fit_slots(self, coming: Iterable[LoadedPrompt], seating: BatchPlacement) -> bool:
        """Slots as wide as the widest prompt that is here or comes: no longer than it stays do others have fewer.

        While a batch reads them they stay as they are: False if they are too narrow, and it is told if too wide.
        """
        widest = max((loaded.ready.memory for loaded in coming), default=0)
        if self._slots.memory > USUAL_MEMORY:
            widest = max(widest, self._slots.widest)
        memory = max(widest, USUAL_MEMORY)
        if memory == self._slots.memory:
            return True
        if self._uses:
            seating.is_cramped = memory < self._slots.memory
            return seating.is_cramped
        self._move(memory)
        return True

    def _move(self, memory: int) -> None:
        """Everyone is in slots of another width; where those are fewer, who was used longest ago has left."""
        while self._slots.count - len(self._free) > self._count_within(memory) and self._leave_least_used(
            with_slot=True
        ):
            pass
        moving = [
            (resident, self._slots.take_out(resident.seat.slot))
            for resident in self._residents.values()
            if resident.seat.slot is not None
        ]
        # Should there be no memory for the other slots, then nobody is here.
        residents, self._residents = self._residents, {}
        beside_bytes, self._beside_bytes = self._beside_bytes, 0
        self._free = list(range(self._slots.count))
        self._lay_slots(memory)
        for resident, ready in moving:
            slot = self._free.pop()
            self._slots.put(slot, ready)
            resident.seat = replace(resident.seat, slot=slot)
        self._residents, self._beside_bytes = residents, beside_bytes

    def _count_within(self, memory: int) -> int:
        return max(1, self._half_bytes // PromptSlots.bytes_each(self.backbone, memory))

    def _lay_slots(self, memory: int) -> None:
        self._slot_bytes = PromptSlots.bytes_each(self.backbone, memory)
        self._slots = PromptSlots(self.backbone, self._count_within(memory), memory)
        self._free = list(range(self._slots.count))


def _beside_bytes(loaded: LoadedPrompt) -> int:
    tensors = (loaded.ready.head_weight, loaded.ready.head_bias, loaded.prototypes)
    return sum(tensor.nbytes for tensor in tensors)
