"""The model runner: one backbone with its prompt cache and prompt loader. It splits a set of prompts into passes."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor

from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from registry.access.usable_prompts import UsablePrompt
from service.engine.device import Device
from service.engine.errors import PromptEvicted
from service.engine.fair_queue import ByteBudget
from service.engine.job import Job, PictureLogits
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import PromptLoader, ReadPrompt
from service.engine.settings import EngineSettings


class ModelRunner:
    """Runs pictures through one backbone, in as many passes as their prompts require."""

    def __init__(
        self,
        backbone: Backbone,
        settings: EngineSettings,
        device: Device,
        budget: ByteBudget,
        read_prompt: ReadPrompt,
        readers: Executor,
    ) -> None:
        self.backbone = backbone
        self.cache = PromptCache(backbone, settings.prompt_cache_bytes)
        self.loader = PromptLoader(backbone, read_prompt, readers, budget)
        self._device = device
        self._max_pairs = settings.max_pairs

    async def run(
        self, image: Tensor, prompts: Sequence[UsablePrompt], admitted_at: float, deadline: float
    ) -> PictureLogits:
        """Return the logits of the image (3, S, S) under each of the prompts, however few of them fit at once."""
        results: list[PictureLogits] = []
        remaining = prompts
        load_all = False
        while remaining:
            part, to_load = self._plan_pass(remaining, load_all)
            try:
                results.append(await self._run_pass(image, part, to_load, admitted_at, deadline))
            except PromptEvicted:
                load_all = True  # the retry brings all its prompts along, so it cannot miss one again
                continue
            remaining = remaining[len(part) :]
            load_all = False
        return results[0] if len(results) == 1 else merge(results)

    def _plan_pass(
        self, remaining: Sequence[UsablePrompt], load_all: bool
    ) -> tuple[Sequence[UsablePrompt], Sequence[UsablePrompt]]:
        """Return the prompts of the next pass, at least one, and those of them that must be loaded."""
        part = remaining[: min(self.cache.capacity, self._max_pairs)]
        part = part[: count_fitting((prompt.size_bytes for prompt in part), self.cache.max_pass_bytes)]
        to_load = part if load_all else self.cache.missing(part)
        loadable = count_fitting(map(self.loader.max_bytes, to_load), self.loader.budget_bytes)
        if loadable < len(to_load):
            part, to_load = part[: part.index(to_load[loadable])], to_load[:loadable]
        return part, to_load

    async def _run_pass(
        self,
        image: Tensor,
        prompts: Sequence[UsablePrompt],
        to_load: Sequence[UsablePrompt],
        admitted_at: float,
        deadline: float,
    ) -> PictureLogits:
        digests = tuple(dict.fromkeys(prompt.digest for prompt in prompts))
        result: asyncio.Future[PictureLogits] = asyncio.get_running_loop().create_future()
        try:
            async with self.loader.load(to_load) as loaded:
                self._device.submit(Job(self.cache, image, digests, loaded, admitted_at, deadline, result))
                return await result
        finally:
            del result  # break the cycle of exception, traceback and frame, so that the picture is freed


def count_fitting(sizes_bytes: Iterable[int], budget_bytes: int) -> int:
    """Return how many of the sizes, from the first on, fit into the budget; the first always does."""
    total_bytes = count = 0
    for size_bytes in sizes_bytes:
        total_bytes += size_bytes
        if count and total_bytes > budget_bytes:
            break
        count += 1
    return count


def merge(passes: Sequence[PictureLogits]) -> PictureLogits:
    """Return the results of several passes of one picture as one. The embedding is the same in each."""
    logits = {digest: row for one in passes for digest, row in one.logits.items()}
    prompts = {digest: prompt for one in passes for digest, prompt in one.prompts.items()}
    return PictureLogits(logits, prompts, passes[0].embedding)
