"""The engine: pictures and the caller's prompts in, logits out. Pictures of several callers share a pass.

The engine does not check rights. Its caller passes the prompts that may be used, and rechecks the rights afterwards.
"""

import asyncio
import time
from collections.abc import Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from uuid import UUID
from weakref import WeakSet

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.threads import available_cores
from registry.access.usable_prompts import TaskConfig, UsablePrompt
from registry.errors import Invalid
from service.engine.backbone_cache import BackboneCache
from service.engine.decode import PictureDecoder
from service.engine.device import Device, Observe, use_one_thread
from service.engine.errors import DeadlinePassed, Overloaded
from service.engine.fair_queue import ByteBudget, FairQueue, Ticket
from service.engine.job import PictureLogits
from service.engine.model_runner import ModelRunner
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import PromptLoader, PromptPredicate, ReadPrompt
from service.engine.settings import EngineSettings
from service.engine.stats import EngineStats


class Engine:
    """One per process. `async with` starts it, and finishes the admitted requests at the end."""

    def __init__(
        self,
        backbones: BackboneCache,
        read_prompt: ReadPrompt,
        settings: EngineSettings,
        observe: Observe = lambda _: None,
    ) -> None:
        self._backbones = backbones
        self._read_prompt = read_prompt
        self._settings = settings
        self._runners: dict[Backbone, ModelRunner] = {}
        self._caches: WeakSet[PromptCache] = WeakSet()  # including those of closed runners that are still in use
        self._loaders: WeakSet[PromptLoader] = WeakSet()
        self._pinned: frozenset[str] = frozenset()
        self._closed_hits = self._closed_misses = 0  # of closed runners
        self._device = Device(settings, observe)
        self._queue = FairQueue(settings.max_active, settings.max_waiting, lambda: self._device.seconds_per_picture)
        self._load_budget = ByteBudget(settings.load_bytes)
        # One thread more than cores, which a single user cannot take.
        self._decoder = PictureDecoder(settings.decode_threads or available_cores() + 1, settings.max_active)
        self._readers = ThreadPoolExecutor(settings.load_threads, "load", use_one_thread)
        self._requests: set[asyncio.Future[None]] = set()
        self._waiting_for_backbone = 0  # pictures
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._device.start()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        try:
            if self._requests:
                await asyncio.wait(set(self._requests))
        finally:
            await asyncio.shield(asyncio.to_thread(self._stop))
            self._close_runners(in_use=())

    def _stop(self) -> None:
        self._device.stop()
        self._decoder.shutdown()
        self._readers.shutdown(cancel_futures=True)

    async def run(
        self,
        task: TaskConfig,
        pictures: Sequence[bytes],
        prompts: Sequence[UsablePrompt],
        *,
        user: UUID,
        deadline: float,
    ) -> list[PictureLogits]:
        """Return the logits of every picture under each of the prompts, in the order of the pictures.

        `service.engine.compose` makes predictions of them. The deadline is in terms of time.monotonic(). Raises
        Overloaded, at once or while the pictures wait, and DeadlinePassed.
        """
        self._validate(pictures, prompts)
        admitted_at = time.monotonic()
        if not pictures:
            return []
        if deadline <= admitted_at:
            raise DeadlinePassed
        tickets: list[Ticket] = []
        finished = asyncio.get_running_loop().create_future()
        self._requests.add(finished)
        try:
            async with asyncio.timeout(deadline - admitted_at) as limit:
                runner = self._runner(await self._backbone(task, len(pictures)))
                tickets = self._queue.enqueue(user, len(pictures))

                async def run_one(picture: bytes, ticket: Ticket, name: str) -> PictureLogits:
                    await ticket.granted
                    try:
                        image = await self._decoder.decode(picture, runner.backbone.preprocessing, name, user)
                        return await runner.run(image, prompts, admitted_at, deadline)
                    finally:
                        self._queue.release(ticket)

                return await run_all([run_one(*one) for one in zip(pictures, tickets, _names(pictures), strict=True)])
        except TimeoutError:
            if limit.expired():
                raise DeadlinePassed from None
            raise
        finally:
            for ticket in tickets:
                self._queue.release(ticket)
            self._requests.discard(finished)
            finished.set_result(None)

    def evict(self, matches: PromptPredicate) -> int:
        """Drop matching prompts from memory, and return how many left the caches now.

        A prompt that a running batch uses leaves right after it. A prompt that was read for a running request is used
        by it and then leaves, too. A prompt that such a request has still to read can enter the cache: evict again when
        the requests that began before have ended.
        """
        for loader in list(self._loaders):
            loader.evict(matches)  # loaders first: a prompt that enters its slot meanwhile is found by the next line
        return sum(cache.evict(matches) for cache in list(self._caches))

    def has_in_memory(self, matches: PromptPredicate) -> bool:
        """Return whether anything of a matching prompt is in memory, even if no request waits for it."""
        holders: list[PromptLoader | PromptCache] = [*self._loaders, *self._caches]
        return any(holder.has_in_memory(matches) for holder in holders)

    @property
    def is_healthy(self) -> bool:
        """Return whether the device computes."""
        return self._device.is_healthy

    def pin(self, digests: Collection[str]) -> None:
        """Let these prompts, and no others, leave their slots last; `evict` drops them all the same."""
        self._pinned = frozenset(digests)
        for runner in self._runners.values():
            runner.cache.pin(self._pinned)

    def stats(self) -> EngineStats:
        """Return counts for the metrics; from any thread."""
        caches = [runner.cache for runner in list(self._runners.values())]
        return EngineStats(
            waiting_pictures=self._waiting_for_backbone + self._queue.waiting,
            active_pictures=self._queue.active,
            ready_pictures=self._device.ready_pictures,
            backbones=len(caches),
            cached_prompts=sum(cache.count for cache in caches),
            cached_prompt_bytes=sum(cache.size_bytes for cache in caches),
            hits=self._closed_hits + sum(cache.hits for cache in caches),
            misses=self._closed_misses + sum(cache.misses for cache in caches),
            batches=self._device.batches,
            pictures=self._device.pictures,
            pairs=self._device.pairs,
            failures=self._device.failures,
        )

    def _validate(self, pictures: Sequence[bytes], prompts: Sequence[UsablePrompt]) -> None:
        if not self._is_open:
            raise Overloaded("this replica is not serving; retry in a moment", retry_after=1)
        if not prompts:
            raise Invalid("the set has no prompts")
        most = self._settings.max_waiting
        if len(pictures) > most:
            raise Invalid(f"{len(pictures)} pictures exceed the limit of {most} a request; send fewer")

    async def _backbone(self, task: TaskConfig, pictures: int) -> Backbone:
        """Return the task's backbone. While it is built, its pictures take no place in the fair queue."""
        if self._waiting_for_backbone + pictures > self._settings.max_waiting:
            raise Overloaded(f"{self._waiting_for_backbone} pictures are waiting for their backbone; retry later", 10)
        self._waiting_for_backbone += pictures
        try:
            return await self._backbones.get(task)
        finally:
            self._waiting_for_backbone -= pictures

    def _runner(self, backbone: Backbone) -> ModelRunner:
        if backbone not in self._runners:
            runner = ModelRunner(
                backbone, self._settings, self._device, self._load_budget, self._read_prompt, self._readers
            )
            runner.cache.pin(self._pinned)
            self._caches.add(runner.cache)
            self._loaders.add(runner.loader)
            self._close_runners(self._backbones.in_memory)
            self._runners[backbone] = runner
        return self._runners[backbone]

    def _close_runners(self, in_use: Collection[Backbone]) -> None:
        for backbone in self._runners.keys() - set(in_use):
            cache = self._runners.pop(backbone).cache
            self._closed_hits += cache.hits
            self._closed_misses += cache.misses


def _names(pictures: Sequence[bytes]) -> list[str]:
    """Return what error messages call each picture."""
    count = len(pictures)
    return ["the picture"] if count == 1 else [f"picture {number} of {count}" for number in range(1, count + 1)]


async def run_all(runs: Sequence[Coroutine[None, None, PictureLogits]]) -> list[PictureLogits]:
    """Run all coroutines at once; the first error cancels the others."""
    if len(runs) == 1:
        return [await runs[0]]
    tasks = [asyncio.create_task(run) for run in runs]
    failed: asyncio.Task[PictureLogits] | None = None
    try:
        # Not a TaskGroup: its errors reference themselves and would keep the pictures until garbage collection.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task for task in tasks if task.done() and task.exception()), None)
        if failed is not None:
            failed.result()
        return [task.result() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        del tasks, failed, task  # break the cycle of exception, traceback and frame
