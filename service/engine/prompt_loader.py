"""Prompts on their way from the object store to the device: read once for many waiters, and checked in full."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from torch import Tensor

from alacarte.prompting.attention.prompt_slots import PrecomputedPrompt, PromptSlots, precompute
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import PromptingError
from alacarte.prompting.predict import check_backbone
from alacarte.prompting.prompt.artifact import prompt_from_bytes
from alacarte.prompting.prompt.tensors import MAX_MEMORY_TOKENS
from registry.access.usable_set import UsablePrompt
from service.engine.errors import PromptUnusable

STORED_BYTES = 4  # of a number in a prompt's file

ReadPrompt = Callable[[UsablePrompt], bytes]  # the bytes whose digest the prompt names, or a DomainError; any thread
PromptPredicate = Callable[[UsablePrompt], bool]


@dataclass(eq=False)
class LoadedPrompt:
    """A sound prompt, ready to be put into a slot; it lives as long as somebody waits with it."""

    digest: str
    ready: PrecomputedPrompt
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D), on the host
    owners: dict[UUID, UsablePrompt]  # as whose prompt it was asked for; mostly one
    stays: bool = True  # no more if it was evicted on its way


@dataclass(eq=False)
class PromptLoad:
    """A prompt that is being read."""

    loaded: asyncio.Future[LoadedPrompt]
    owners: dict[UUID, UsablePrompt] = field(default_factory=dict)


class PromptLoader:
    """Reads, checks and prepares prompts of one backbone, in threads; called on the event loop only."""

    def __init__(self, backbone: Backbone, read_prompt: ReadPrompt, threads: Executor) -> None:
        self._backbone = backbone
        self._read_prompt = read_prompt
        self._threads = threads
        self._loading: dict[str, PromptLoad] = {}
        self._loaded: WeakValueDictionary[str, LoadedPrompt] = WeakValueDictionary()
        self._alive: WeakSet[LoadedPrompt] = WeakSet()  # also those that others have been read after

    async def fetch(self, prompts: Sequence[UsablePrompt]) -> dict[str, LoadedPrompt]:
        """The prompts by their digests; each is read once, however many ask at the same time."""
        found: dict[str, LoadedPrompt] = {}
        waiting: dict[str, asyncio.Future[LoadedPrompt]] = {}
        for prompt in prompts:
            loaded = self._loaded.get(prompt.digest)
            if loaded is not None and loaded.stays:
                found[prompt.digest] = loaded
            else:
                waiting[prompt.digest] = self._load(prompt)
        if waiting:
            # Whoever stops waiting stops nothing: others may wait for the same.
            await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_EXCEPTION)
            failed = next((future for future in waiting.values() if future.done() and future.exception()), None)
            try:
                if failed is not None:
                    failed.result()
                found |= {digest: future.result() for digest, future in waiting.items()}
            finally:
                del failed, waiting  # an error knows this frame: if it were known here, both would stay
        for prompt in prompts:
            found[prompt.digest].owners[prompt.id] = prompt
        return found

    def evict(self, matches: PromptPredicate) -> None:
        """What matches and is on its way will be used by those who wait for it, and not be kept."""
        for loaded in list(self._loaded.values()):
            if any(map(matches, loaded.owners.values())):
                loaded.stays = False

    def has_in_memory(self, matches: PromptPredicate) -> bool:
        """Whether something that matches is being read, or waits to enter its slot, though it be for nobody."""
        owned: list[PromptLoad | LoadedPrompt] = [*self._loading.values(), *self._alive]
        return any(any(map(matches, one.owners.values())) for one in owned)

    def _load(self, prompt: UsablePrompt) -> asyncio.Future[LoadedPrompt]:
        loading = self._loading.get(prompt.digest)
        if loading is None:
            loaded = asyncio.get_running_loop().run_in_executor(self._threads, self._read, prompt)
            loading = self._loading[prompt.digest] = PromptLoad(loaded)
            loaded.add_done_callback(partial(self._finish, prompt.digest))
        loading.owners[prompt.id] = prompt
        return loading.loaded

    def _finish(self, digest: str, loaded: asyncio.Future[LoadedPrompt]) -> None:
        del self._loading[digest]
        if not loaded.cancelled() and loaded.exception() is None:
            self._loaded[digest] = loaded.result()
            self._alive.add(loaded.result())

    def _read(self, prompt: UsablePrompt) -> LoadedPrompt:
        """In a thread: the bytes, their checks, and all that depends on the prompt alone."""
        try:
            read = prompt_from_bytes(self._read_prompt(prompt))
            check_backbone(self._backbone, str(prompt.id), read)
        except PromptingError as error:
            raise PromptUnusable(f"prompt {prompt.id} cannot be used: {error}; train its shard again") from error
        ready = precompute(self._backbone, read.tensors)
        return LoadedPrompt(prompt.digest, ready, read.metadata.labels, read.tensors.prototypes, {prompt.id: prompt})


def most_bytes(backbone: Backbone, prompt: UsablePrompt) -> int:
    """What a prompt of its size can take at most once it is ready: memory that all blocks share is stored but once."""
    memory = min(MAX_MEMORY_TOKENS, prompt.size_bytes // (STORED_BYTES * backbone.width))
    return PromptSlots.bytes_each(backbone, memory) + prompt.size_bytes


class ByteBudget:
    """A number of bytes that are lent out and come back; on the event loop only."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = self._free = size_bytes
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[None]:
        """Inside, that many bytes are the caller's; who needs more than there is gets all of it, alone."""
        size = min(size_bytes, self.size_bytes)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, place))
        self._advance()
        try:
            await place
            yield
        finally:
            # A place that was cancelled after it was given has its bytes too.
            if (size, place) in self._line:
                self._line.remove((size, place))
            else:
                self._free += size
            self._advance()

    def _advance(self) -> None:
        while self._line and self._line[0][0] <= self._free:
            size, place = self._line.popleft()
            self._free -= size
            if not place.done():
                place.set_result(None)
