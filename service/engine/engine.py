"""The engine: pictures and the caller's prompts in, logits out. Pictures of several callers share a pass.

The engine does not check rights. Its caller passes the prompts that may be used, and rechecks the rights afterwards.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self
from uuid import UUID
from weakref import WeakSet

from alacarte.prompting.backbone.vit import Backbone
from registry.access.usable_set import TaskConfig, UsablePrompt
from registry.errors import Invalid
from service.engine.backbone_cache import BackboneCache
from service.engine.decode import Decoders
from service.engine.device import Device, use_one_thread
from service.engine.errors import DeadlinePassed, Overloaded
from service.engine.fair_queue import FairQueue, Ticket
from service.engine.job import PictureLogits
from service.engine.model_runner import ModelRunner
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import ByteBudget, PromptLoader, PromptPredicate, ReadPrompt
from service.engine.settings import EngineSettings, cores
from service.engine.stats import BatchStats, EngineStats


class Engine:
    """Made once a process; `async with` starts it, and drains it at the end."""

    def __init__(
        self,
        backbones: BackboneCache,
        read_prompt: ReadPrompt,
        settings: EngineSettings,
        observe: Callable[[BatchStats], None] = lambda _: None,
    ) -> None:
        self._backbones = backbones
        self._read_prompt = read_prompt
        self._settings = settings
        self._stations: dict[Backbone, ModelRunner] = {}
        self._residences: WeakSet[PromptCache] = (
            WeakSet()
        )  # also those of stations that are gone, while they are in use
        self._loaders: WeakSet[PromptLoader] = WeakSet()
        self._pinned: frozenset[str] = frozenset()
        self._past = (0, 0)  # hits and misses of stations that are gone
        self._device = Device(settings, observe)
        self._turns = FairQueue(settings.places, settings.queue_pictures, lambda: self._device.seconds_each)
        self._room = ByteBudget(settings.load_bytes)
        # One more than cores, so that there is one that a single user does not have.
        self._decoders = Decoders(settings.decode_threads or cores() + 1, settings.places)
        self._readers = ThreadPoolExecutor(settings.load_threads, "load", use_one_thread)
        self._asking: set[asyncio.Future[None]] = set()
        self._arriving = 0  # pictures that wait for a backbone to be built
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
            if self._asking:
                await asyncio.wait(set(self._asking))
        finally:
            await asyncio.shield(asyncio.to_thread(self._stop))
            self._close_stations(kept=())

    def _stop(self) -> None:
        self._device.stop()
        self._decoders.shutdown()
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
        """The logits of every picture under each of these prompts, in the order of the pictures.

        `service.engine.compose` makes answers of them. The deadline is a moment of time.monotonic(). Raises Overloaded
        at once or while the pictures wait, and DeadlinePassed.
        """
        self._check(pictures, prompts)
        since = time.monotonic()
        if not pictures:
            return []
        if deadline <= since:
            raise DeadlinePassed
        turns: list[Ticket] = []
        asking = asyncio.get_running_loop().create_future()
        self._asking.add(asking)
        try:
            async with asyncio.timeout(deadline - since) as limit:
                station = self._station(await self._backbone(task, len(pictures)))
                turns = self._turns.join(user, len(pictures))

                async def ask(picture: bytes, turn: Ticket, name: str) -> PictureLogits:
                    await turn.granted
                    try:
                        image = await self._decoders.decode(picture, station.backbone.preprocessing, name, user)
                        return await station.say(image, prompts, since, deadline)
                    finally:
                        self._turns.leave(turn)

                return await for_each(ask, pictures, turns)
        except TimeoutError:
            if limit.expired():
                raise DeadlinePassed from None
            raise
        finally:
            for turn in turns:
                self._turns.leave(turn)
            self._asking.discard(asking)
            asking.set_result(None)

    def evict(self, prompts_of: PromptPredicate) -> int:
        """The number of prompts that left memory just now.

        One that the running batch uses leaves right after it; one that is on its way from the store for a question
        under way is used by it, and then leaves too if it was read already. What such a question has still to read can
        come to stay: evict again when the questions that began before have ended.
        """
        # What is on its way comes first: what enters its slot between the two is found there.
        for loader in list(self._loaders):
            loader.evict(prompts_of)  # first: what enters its slot between the two is found by the second
        return sum(residence.evict(prompts_of) for residence in list(self._residences))

    def has_in_memory(self, prompts_of: PromptPredicate) -> bool:
        """Whether anything of such a prompt is in memory, also if nobody waits for it any more."""
        holders: list[PromptLoader | PromptCache] = [*self._loaders, *self._residences]
        return any(holder.has_in_memory(prompts_of) for holder in holders)

    @property
    def is_healthy(self) -> bool:
        """Whether the device computes what it is given."""
        return self._device.is_healthy

    def pin(self, digests: Collection[str]) -> None:
        """From now on these prompts, and no others, leave their slots last; evicting takes them all the same."""
        self._pinned = frozenset(digests)
        for station in self._stations.values():
            station.residence.pin(self._pinned)

    def stats(self) -> EngineStats:
        """What metrics want to know; from any thread."""
        residences = [station.residence for station in list(self._stations.values())]
        return EngineStats(
            waiting_pictures=self._arriving + self._turns.waiting,
            active_pictures=self._turns.going,
            ready_pictures=self._device.ready,
            backbones=len(residences),
            cached_prompts=sum(residence.count for residence in residences),
            cached_prompt_bytes=sum(residence.size_bytes for residence in residences),
            hits=self._past[0] + sum(residence.hits for residence in residences),
            misses=self._past[1] + sum(residence.misses for residence in residences),
            batches=self._device.batches,
            pictures=self._device.pictures,
            pairs=self._device.pairs,
            failures=self._device.failures,
        )

    def _check(self, pictures: Sequence[bytes], prompts: Sequence[UsablePrompt]) -> None:
        if not self._is_open:
            raise Overloaded("this replica is not serving now: ask again in a moment", retry_after=1)
        if not prompts:
            raise Invalid("there are no prompts to answer with")
        most = self._settings.queue_pictures
        if len(pictures) > most:
            raise Invalid(f"{len(pictures)} pictures are more than the {most} that can be asked at once: send fewer")

    async def _backbone(self, task: TaskConfig, pictures: int) -> Backbone:
        """The task's backbone; while it is being built its pictures take no place that others could use."""
        if self._arriving + pictures > self._settings.queue_pictures:
            raise Overloaded(f"{self._arriving} pictures wait for their backbone already: ask again later", 10)
        self._arriving += pictures
        try:
            return await self._backbones.get(task)
        finally:
            self._arriving -= pictures

    def _station(self, backbone: Backbone) -> ModelRunner:
        if backbone not in self._stations:
            station = ModelRunner(backbone, self._settings, self._device, self._room, self._read_prompt, self._readers)
            station.residence.pin(self._pinned)
            self._residences.add(station.residence)
            self._loaders.add(station.loader)
            self._close_stations(self._backbones.kept)
            self._stations[backbone] = station
        return self._stations[backbone]

    def _close_stations(self, kept: Collection[Backbone]) -> None:
        for backbone in self._stations.keys() - set(kept):
            gone = self._stations.pop(backbone).residence
            self._past = (self._past[0] + gone.hits, self._past[1] + gone.misses)


async def for_each(
    ask: Callable[[bytes, Ticket, str], Coroutine[None, None, PictureLogits]],
    pictures: Sequence[bytes],
    turns: Sequence[Ticket],
) -> list[PictureLogits]:
    """Ask about all pictures at once; the first error ends the others."""
    if len(pictures) == 1:
        return [await ask(pictures[0], turns[0], "the picture")]
    tasks = [
        asyncio.create_task(ask(picture, turn, f"picture {number} of {len(pictures)}"))
        for number, (picture, turn) in enumerate(zip(pictures, turns, strict=True), 1)
    ]
    failed: asyncio.Task[PictureLogits] | None = None
    try:
        # And no TaskGroup: its errors know themselves, and would keep the pictures until garbage is collected.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        failed = next((task for task in tasks if task.done() and task.exception()), None)
        if failed is not None:
            failed.result()
        return [task.result() for task in tasks]
    finally:
        await end(tasks)
        del tasks, failed  # an error knows this frame: if it were known here, neither would ever go


async def end(tasks: Sequence[asyncio.Task[PictureLogits]]) -> None:
    """They have all ended, those that were under way without an answer."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
