"""The prompt loader: it reads prompts from the object store, once for all waiters, and validates them in full."""

import asyncio
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
from registry.access.usable_prompts import UsablePrompt
from service.engine.errors import PromptUnusable
from service.engine.fair_queue import ByteBudget

STORED_NUMBER_BYTES = 4  # float32 in the artifact

ReadPrompt = Callable[[UsablePrompt], bytes]  # returns the bytes with the prompt's digest or raises; in any thread
PromptPredicate = Callable[[UsablePrompt], bool]


@dataclass(eq=False)
class LoadedPrompt:
    """A validated prompt, ready to be copied into a slot. It lives as long as a waiter references it."""

    digest: str
    ready: PrecomputedPrompt
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D), on the host
    owners: dict[UUID, UsablePrompt]  # the prompts that have these bytes; mostly one
    keep: bool = True  # False if it was evicted while it was loaded


@dataclass(eq=False)
class PromptLoad:
    """A prompt that is being read."""

    future: asyncio.Future[LoadedPrompt]
    owners: dict[UUID, UsablePrompt] = field(default_factory=dict)


class PromptLoader:
    """Reads, validates and prepares prompts of one backbone in threads; called on the event loop only."""

    def __init__(self, backbone: Backbone, read_prompt: ReadPrompt, threads: Executor, budget: ByteBudget) -> None:
        self._backbone = backbone
        self._read_prompt = read_prompt
        self._threads = threads
        self._budget = budget
        self._loading: dict[str, PromptLoad] = {}
        self._loaded: WeakValueDictionary[str, LoadedPrompt] = WeakValueDictionary()
        self._in_memory: WeakSet[LoadedPrompt] = WeakSet()  # including older loads of the same digest

    @property
    def budget_bytes(self) -> int:
        """Return how many bytes of prompts may be loaded at once."""
        return self._budget.size_bytes

    def max_bytes(self, prompt: UsablePrompt) -> int:
        """Return the most bytes that a prompt of this size takes once it is prepared.

        Memory tokens that all blocks share are stored once and prepared for every block.
        """
        memory = min(MAX_MEMORY_TOKENS, prompt.size_bytes // (STORED_NUMBER_BYTES * self._backbone.width))
        return PromptSlots.bytes_each(self._backbone, memory) + prompt.size_bytes

    @asynccontextmanager
    async def load(self, prompts: Sequence[UsablePrompt]) -> AsyncIterator[dict[str, LoadedPrompt]]:
        """Load the prompts by digest, and reserve their bytes for the block."""
        if not prompts:
            yield {}
            return
        async with self._budget.reserve(sum(map(self.max_bytes, prompts))):
            yield await self._load_all(prompts)

    def evict(self, matches: PromptPredicate) -> None:
        """Let the cache drop matching prompts after the passes that they were loaded for."""
        for loaded in list(self._loaded.values()):
            if any(map(matches, loaded.owners.values())):
                loaded.keep = False

    def has_in_memory(self, matches: PromptPredicate) -> bool:
        """Return whether a matching prompt is being read or waits for its slot, even if its caller is gone."""
        entries: list[PromptLoad | LoadedPrompt] = [*self._loading.values(), *self._in_memory]
        return any(any(map(matches, entry.owners.values())) for entry in entries)

    async def _load_all(self, prompts: Sequence[UsablePrompt]) -> dict[str, LoadedPrompt]:
        loaded: dict[str, LoadedPrompt] = {}
        waiting: dict[str, asyncio.Future[LoadedPrompt]] = {}
        for prompt in prompts:
            known = self._loaded.get(prompt.digest)
            if known is not None and known.keep:
                loaded[prompt.digest] = known
            else:
                waiting[prompt.digest] = self._start(prompt)
        if waiting:
            # Not gather: a cancelled waiter must not cancel reads that others wait for.
            await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_EXCEPTION)
            failed = next((future for future in waiting.values() if future.done() and future.exception()), None)
            try:
                if failed is not None:
                    failed.result()
                loaded |= {digest: future.result() for digest, future in waiting.items()}
            finally:
                del failed, waiting  # break the cycle of exception, traceback and frame
        for prompt in prompts:
            loaded[prompt.digest].owners[prompt.id] = prompt
        return loaded

    def _start(self, prompt: UsablePrompt) -> asyncio.Future[LoadedPrompt]:
        load = self._loading.get(prompt.digest)
        if load is None:
            future = asyncio.get_running_loop().run_in_executor(self._threads, self._read, prompt)
            load = self._loading[prompt.digest] = PromptLoad(future)
            future.add_done_callback(partial(self._finish, prompt.digest))
        load.owners[prompt.id] = prompt
        return load.future

    def _finish(self, digest: str, future: asyncio.Future[LoadedPrompt]) -> None:
        del self._loading[digest]
        if not future.cancelled() and future.exception() is None:
            self._loaded[digest] = future.result()
            self._in_memory.add(future.result())

    def _read(self, prompt: UsablePrompt) -> LoadedPrompt:
        """Read, validate and prepare a prompt; blocks."""
        try:
            read = prompt_from_bytes(self._read_prompt(prompt))
            check_backbone(self._backbone, str(prompt.id), read)
        except PromptingError as error:
            raise PromptUnusable(f"prompt {prompt.id} cannot be used: {error}; train its shard again") from error
        ready = precompute(self._backbone, read.tensors)
        return LoadedPrompt(prompt.digest, ready, read.metadata.labels, read.tensors.prototypes, {prompt.id: prompt})
