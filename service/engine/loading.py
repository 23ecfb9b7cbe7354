"""Prompts on their way from the object store to the device: read once for many waiters, and checked in full."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from uuid import UUID
from weakref import WeakValueDictionary

from torch import Tensor

from alacarte.prompting.artifact import prompt_from_bytes
from alacarte.prompting.backbone import Backbone
from alacarte.prompting.errors import PromptingError
from alacarte.prompting.pool import ReadyPrompt, make_ready
from alacarte.prompting.predict import require_own
from registry.usable_set import UsablePrompt
from service.engine.errors import PromptUnusable

ReadPrompt = Callable[[UsablePrompt], bytes]  # the bytes whose digest the prompt names, or a DomainError; any thread
Matches = Callable[[UsablePrompt], bool]


@dataclass(eq=False)
class Loaded:
    """A sound prompt, ready to be put into a slot; it lives as long as somebody waits with it."""

    digest: str
    ready: ReadyPrompt
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D), on the host
    owners: dict[UUID, UsablePrompt]  # as whose prompt it was asked for; mostly one
    stays: bool = True  # no more if it was evicted on its way


class Loader:
    """Reads, checks and prepares prompts of one backbone, in threads; called on the event loop only."""

    def __init__(self, backbone: Backbone, read_prompt: ReadPrompt, threads: Executor) -> None:
        self._backbone = backbone
        self._read_prompt = read_prompt
        self._threads = threads
        self._loading: dict[str, asyncio.Future[Loaded]] = {}
        self._loaded: WeakValueDictionary[str, Loaded] = WeakValueDictionary()

    async def fetch(self, prompts: Sequence[UsablePrompt]) -> dict[str, Loaded]:
        """The prompts by their digests; each is read once, however many ask at the same time."""
        found: dict[str, Loaded] = {}
        waiting: dict[str, asyncio.Future[Loaded]] = {}
        for prompt in prompts:
            loaded = self._loaded.get(prompt.digest)
            if loaded is not None and loaded.stays:
                found[prompt.digest] = loaded
            else:
                waiting[prompt.digest] = self._load(prompt)
        if waiting:
            # Whoever stops waiting stops nothing: others may wait for the same.
            await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_EXCEPTION)
            for failed in (future for future in waiting.values() if future.done() and future.exception()):
                failed.result()
            found |= {digest: future.result() for digest, future in waiting.items()}
        for prompt in prompts:
            found[prompt.digest].owners[prompt.id] = prompt
        return found

    def evict(self, matches: Matches) -> None:
        """What matches and is on its way will be used by those who wait for it, and not be kept."""
        for loaded in list(self._loaded.values()):
            if any(map(matches, loaded.owners.values())):
                loaded.stays = False

    def _load(self, prompt: UsablePrompt) -> asyncio.Future[Loaded]:
        loading = self._loading.get(prompt.digest)
        if loading is None:
            loop = asyncio.get_running_loop()
            loading = loop.run_in_executor(self._threads, self._read, prompt)
            self._loading[prompt.digest] = loading
            loading.add_done_callback(partial(self._finish, prompt.digest))
        return loading

    def _finish(self, digest: str, loading: asyncio.Future[Loaded]) -> None:
        del self._loading[digest]
        if not loading.cancelled() and loading.exception() is None:
            self._loaded[digest] = loading.result()

    def _read(self, prompt: UsablePrompt) -> Loaded:
        """In a thread: the bytes, their checks, and all that depends on the prompt alone."""
        try:
            read = prompt_from_bytes(self._read_prompt(prompt))
            require_own(self._backbone, str(prompt.id), read)
        except PromptingError as error:
            raise PromptUnusable(f"prompt {prompt.id} cannot be used: {error}; train its shard again") from error
        ready = make_ready(self._backbone, read.tensors)
        return Loaded(prompt.digest, ready, read.facts.labels, read.tensors.prototypes, {prompt.id: prompt})
