"""What tests of the engine stand on: a store with gates, a backbone with gates, and what the answer must be."""

import asyncio
import io
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import torch
from PIL import Image
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import ImagePrediction, Predictor
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.access.usable_set import TaskConfig, UsablePrompt
from service.engine.backbone_cache import BackboneCache
from service.engine.compose import check_composition, compose
from service.engine.engine import Engine
from service.engine.settings import EngineSettings
from service.engine.stats import BatchStats

ANN, BEN, CAT = UUID(int=1001), UUID(int=1002), UUID(int=1003)


class PausePoint:
    """Where a thread is held until it may go on; open at first."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()
        self._reached = threading.Semaphore(0)

    def pause(self) -> None:
        self._is_open.clear()

    def resume(self) -> None:
        self._is_open.set()

    def wait_if_paused(self) -> None:
        if not self._is_open.is_set():
            self._reached.release()
            assert self._is_open.wait(30), "nobody opened the pause_point"

    async def wait_until_reached(self) -> None:
        """Until a thread stands before the closed pause_point."""
        assert await asyncio.to_thread(self._reached.acquire, timeout=30), "nobody came to the pause_point"


class EngineHarness:
    """A task, its prompts in a store, and an engine that reads them from there."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self.task = TaskConfig(
            id=UUID(int=1),
            name="animals",
            backbone=backbone.architecture,
            size=backbone.preprocessing.size,
            identity=backbone.identity,
            composition="average",
            weighting="none",
            labels=None,
        )
        self.prompts: dict[str, TrainedPrompt] = {}
        self.objects: dict[UUID, bytes] = {}
        self.reads: list[str] = []
        self.read_pause = PausePoint()
        self.fault: Exception | None = None  # of the store
        self.forward_pause = PausePoint()
        self.images: list[int] = []  # how many there were in each pass
        self.poison: Tensor | None = None
        self.observed: list[BatchStats] = []
        self._embed = backbone.embed

    def add(self, prompt: TrainedPrompt, source: int = 1, shard: int = 1) -> UsablePrompt:
        """The prompt is in the store; a second one with the same numbers is another prompt."""
        data = prompt_to_bytes(prompt)
        number = UUID(int=10_000 + len(self.prompts))
        usable = UsablePrompt(
            id=number,
            source_id=UUID(int=source),
            shard_id=UUID(int=shard),
            generation=1,
            digest=prompt_digest(data),
            size_bytes=len(data),
        )
        self.prompts[str(number)] = prompt
        self.objects[usable.id] = data
        return usable

    def read(self, prompt: UsablePrompt) -> bytes:
        self.read_pause.wait_if_paused()
        if self.fault is not None:
            raise self.fault
        self.reads.append(prompt.digest)
        return self.objects[prompt.id]

    def embed(self, images: Tensor) -> Tensor:
        """The backbone's own, behind a pause_point; it fails if the poisonous picture is among the images."""
        self.forward_pause.wait_if_paused()
        self.images.append(len(images))
        if self.poison is not None and any(torch.equal(image, self.poison) for image in images):
            raise RuntimeError("this picture is poison")
        return self._embed(images)

    def resume_all(self) -> None:
        self.read_pause.resume()
        self.forward_pause.resume()

    def new_engine(self, settings: EngineSettings | None = None) -> Engine:
        settings = settings or EngineSettings(decode_threads=1)
        settings = replace(settings, compute_threads=settings.compute_threads or 1)  # on every machine the same passes
        return Engine(BackboneCache(settings, lambda *_: self.backbone), self.read, settings, self.observed.append)

    @asynccontextmanager
    async def engine(self, settings: EngineSettings | None = None) -> AsyncIterator[Engine]:
        """An engine that serves; a test that fails holds nobody back, so that the engine can end."""
        async with self.new_engine(settings) as engine:
            try:
                yield engine
            except BaseException:
                self.resume_all()
                raise

    def slots_for(self, count: int, memory: int = 5) -> int:
        """The bytes within which just so many prompts of these few labels find a slot."""
        return 2 * count * slot_bytes(self.backbone, memory)

    def expect(
        self,
        pictures: Iterable[bytes],
        prompts: Sequence[UsablePrompt],
        composition: Composition = "average",
        weighting: Weighting = "none",
    ) -> list[ImagePrediction]:
        """What these prompts say when nobody else is there."""
        names = [str(prompt.id) for prompt in prompts]
        images = torch.stack([self.image(picture) for picture in pictures])
        predictor = Predictor(self.backbone, {name: self.prompts[name] for name in names})
        return predictor.predict(images, [names] * len(images), composition, weighting)

    def image(self, picture: bytes) -> Tensor:
        return self.backbone.preprocessing(decode(picture))

    async def ask(
        self,
        engine: Engine,
        pictures: Sequence[bytes],
        prompts: Sequence[UsablePrompt],
        *,
        user: UUID = ANN,
        seconds: float = 60,
        composition: Composition = "average",
        weighting: Weighting = "none",
    ) -> list[ImagePrediction]:
        deadline = time.monotonic() + seconds
        check_composition(composition, weighting)
        logits = await engine.run(self.task, pictures, prompts, user=user, deadline=deadline)
        return await asyncio.to_thread(compose, prompts, logits, composition, weighting)


def slot_bytes(backbone: Backbone, memory: int) -> int:
    keys_values = 2 * backbone.depth * backbone.width * memory
    return (backbone.width + keys_values + memory) * 4


def picture(seed: int) -> bytes:
    """A small picture of its own."""
    side = 12
    stream = io.BytesIO()
    Image.frombytes("RGB", (side, side), random.Random(seed).randbytes(3 * side * side)).save(stream, "PNG")
    return stream.getvalue()


def same(actual: Sequence[ImagePrediction], expected: Sequence[ImagePrediction]) -> None:
    """Equal but for the last digits."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.set_digest == other.set_digest
        assert [member.name for member in one.members] == [member.name for member in other.members]
        ours, theirs = (dict(zip(a.labels, a.scores.tolist(), strict=True)) for a in (one, other))
        assert ours.keys() == theirs.keys()
        assert max(abs(ours[label] - theirs[label]) for label in ours) < 1e-6
        for mine, yours in zip(one.members, other.members, strict=True):
            assert mine.labels == yours.labels
            assert abs(mine.weight - yours.weight) < 1e-6
            torch.testing.assert_close(mine.scores, yours.scores, rtol=0, atol=1e-6)


async def until(condition: Callable[[], bool]) -> None:
    """Lets everyone else run until it is so."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)
