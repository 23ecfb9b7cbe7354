"""The engine's test harness: a store and forward passes that can be paused, and the expected predictions."""

import asyncio
import io
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
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
from registry.access.usable_prompts import TaskConfig, UsablePrompt
from service.engine.backbone_cache import BackboneCache
from service.engine.compose import check_composition, compose
from service.engine.engine import Engine
from service.engine.settings import EngineSettings
from service.engine.stats import BatchStats
from tests.prompting.reference import small_prompt

ANN, BEN, CAT = UUID(int=1001), UUID(int=1002), UUID(int=1003)


class PausePoint:
    """A point where tests can pause threads; not paused at first."""

    def __init__(self) -> None:
        self._may_continue = threading.Event()
        self._may_continue.set()
        self._arrivals = threading.Semaphore(0)

    def pause(self) -> None:
        self._may_continue.clear()

    def resume(self) -> None:
        self._may_continue.set()

    def wait_if_paused(self) -> None:
        if not self._may_continue.is_set():
            self._arrivals.release()
            assert self._may_continue.wait(30), "a paused thread was not resumed"

    async def wait_until_reached(self, threads: int = 1) -> None:
        """Wait until so many threads have been paused here."""
        for _ in range(threads):
            assert await asyncio.to_thread(self._arrivals.acquire, timeout=30), "no thread came to the pause point"


class EngineHarness:
    """A task, its prompts in a store, and engines that read them from there."""

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
        self.store_error: Exception | None = None  # raised by the store
        self.forward_pause = PausePoint()
        self.pass_sizes: list[int] = []  # the size of each pass
        self.poison: Tensor | None = None
        self.after_pass: Callable[[Tensor], None] = lambda _: None  # called with the images of each pass
        self.observed: list[BatchStats] = []
        self.observe: Callable[[BatchStats], None] = self.observed.append
        self._embed = backbone.embed

    def add(self, prompt: TrainedPrompt, source: int = 1) -> UsablePrompt:
        """Store a prompt. The same tensors added twice are two prompts."""
        data = prompt_to_bytes(prompt)
        number = UUID(int=10_000 + len(self.prompts))
        self.prompts[str(number)] = prompt
        self.objects[number] = data
        return UsablePrompt(number, UUID(int=source), UUID(int=1), 1, prompt_digest(data), len(data))

    def add_prompts(self, count: int) -> list[UsablePrompt]:
        """Store this many prompts, each of its own source."""
        return [self.add(small_prompt(self.backbone, seed=seed), source=seed) for seed in range(count)]

    def read(self, prompt: UsablePrompt) -> bytes:
        self.read_pause.wait_if_paused()
        if self.store_error is not None:
            raise self.store_error
        self.reads.append(prompt.digest)
        return self.objects[prompt.id]

    def embed(self, images: Tensor) -> Tensor:
        """The backbone's own embed, with a pause point; it fails if the poisonous picture is among the images."""
        self.forward_pause.wait_if_paused()
        self.pass_sizes.append(len(images))
        if self.poison is not None and any(torch.equal(image, self.poison) for image in images):
            raise RuntimeError("this picture is poison")
        embedded = self._embed(images)
        self.after_pass(images)
        return embedded

    def resume_all(self) -> None:
        self.read_pause.resume()
        self.forward_pause.resume()

    def new_engine(self, settings: EngineSettings | None = None) -> Engine:
        settings = settings or EngineSettings(decode_threads=1)
        settings = replace(settings, compute_threads=settings.compute_threads or 1)  # the same passes on every machine
        return Engine(BackboneCache(settings, lambda *_: self.backbone), self.read, settings, self.observe)

    @asynccontextmanager
    async def engine(self, settings: EngineSettings | None = None) -> AsyncIterator[Engine]:
        """A started engine; if the test fails, paused threads resume so that the engine can stop."""
        async with self.new_engine(settings) as engine:
            try:
                yield engine
            except BaseException:
                self.resume_all()
                raise

    def slots_for(self, count: int) -> int:
        """The cache size for exactly this many slots."""
        return 2 * count * slot_bytes(self.backbone, memory=5)

    def expect(
        self,
        pictures: Iterable[bytes],
        prompts: Sequence[UsablePrompt],
        composition: Composition = "average",
        weighting: Weighting = "none",
    ) -> list[ImagePrediction]:
        """The predictions of these prompts, computed without the engine."""
        names = [str(prompt.id) for prompt in prompts]
        images = torch.stack([self.image(picture) for picture in pictures])
        predictor = Predictor(self.backbone, {name: self.prompts[name] for name in names})
        return predictor.predict(images, [names] * len(images), composition, weighting)

    def image(self, picture: bytes) -> Tensor:
        return self.backbone.preprocessing(decode(picture))

    async def predict(
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

    def start(
        self, engine: Engine, pictures: Sequence[bytes], prompts: Sequence[UsablePrompt], **options: Any
    ) -> asyncio.Task[list[ImagePrediction]]:
        return asyncio.create_task(self.predict(engine, pictures, prompts, **options))

    async def start_paused(
        self, engine: Engine, pictures: Sequence[bytes], prompts: Sequence[UsablePrompt], user: UUID = ANN
    ) -> asyncio.Task[list[ImagePrediction]]:
        """Start a prediction and pause its forward pass."""
        self.forward_pause.pause()
        task = self.start(engine, pictures, prompts, user=user)
        await self.forward_pause.wait_until_reached()
        return task

    async def check(self, engine: Engine, pictures: Sequence[bytes], prompts: Sequence[UsablePrompt]) -> None:
        """Assert that the engine predicts what is expected."""
        assert_same(await self.predict(engine, pictures, prompts), self.expect(pictures, prompts))


def slot_bytes(backbone: Backbone, memory: int) -> int:
    keys_values = 2 * backbone.depth * backbone.width * memory
    return (backbone.width + keys_values + memory) * 4


def picture(seed: int) -> bytes:
    side = 12
    stream = io.BytesIO()
    Image.frombytes("RGB", (side, side), random.Random(seed).randbytes(3 * side * side)).save(stream, "PNG")
    return stream.getvalue()


def assert_same(actual: Sequence[ImagePrediction], expected: Sequence[ImagePrediction]) -> None:
    """Compare predictions up to rounding."""
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
    """Let other tasks run until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)
