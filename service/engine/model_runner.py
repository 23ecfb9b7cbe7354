"""A station: one backbone, the prompts in its slots, the way there, and how a picture is asked through it."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor

from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from registry.access.usable_set import UsablePrompt
from service.engine.device import Device
from service.engine.errors import PromptEvicted
from service.engine.job import Job, PictureLogits
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import ByteBudget, PromptLoader, ReadPrompt, most_bytes
from service.engine.settings import EngineSettings


class ModelRunner:
    """Asks every prompt of a set about a picture, in as many passes as it takes."""

    def __init__(
        self,
        backbone: Backbone,
        settings: EngineSettings,
        device: Device,
        room: ByteBudget,
        read_prompt: ReadPrompt,
        readers: Executor,
    ) -> None:
        self.backbone = backbone
        self.residence = PromptCache(backbone, settings.prompt_bytes)
        self.loader = PromptLoader(backbone, read_prompt, readers)
        self._device = device
        self._room = room
        self._max_pairs = settings.batch_pairs

    async def say(self, image: Tensor, prompts: Sequence[UsablePrompt], since: float, deadline: float) -> PictureLogits:
        """What each of the prompts says of the image (3, S, S), however few of them fit at once."""
        said: list[PictureLogits] = []
        left = prompts
        is_certain = False
        while left:
            part, wanted = self._next_pass(left, is_certain)
            try:
                said.append(await self._pass(image, part, wanted, since, deadline))
            except PromptEvicted:
                # Others have taken the slots meanwhile: next time it brings along all that it needs.
                is_certain = True
                continue
            left = left[len(part) :]
            is_certain = False
        return said[0] if len(said) == 1 else merge(said)

    def _next_pass(
        self, left: Sequence[UsablePrompt], is_certain: bool
    ) -> tuple[Sequence[UsablePrompt], Sequence[UsablePrompt]]:
        """As many of the prompts, and at least one, as a pass has seats and bytes for; and which to fetch."""
        part = left[: min(self.residence.capacity, self._max_pairs)]
        part = part[: fitting((prompt.size_bytes for prompt in part), self.residence.pass_bytes)]
        wanted = part if is_certain else self.residence.missing(part)
        fetched = fitting((most_bytes(self.backbone, prompt) for prompt in wanted), self._room.size_bytes)
        if fetched < len(wanted):
            part, wanted = part[: part.index(wanted[fetched])], wanted[:fetched]
        return part, wanted

    async def _pass(
        self,
        image: Tensor,
        part: Sequence[UsablePrompt],
        wanted: Sequence[UsablePrompt],
        since: float,
        deadline: float,
    ) -> PictureLogits:
        digests = tuple(dict.fromkeys(prompt.digest for prompt in part))
        said: asyncio.Future[PictureLogits] = asyncio.get_running_loop().create_future()
        try:
            if not wanted:
                self._device.hand_in(Job(self.residence, image, digests, {}, since, deadline, said))
                return await said
            async with self._room.hold(sum(most_bytes(self.backbone, prompt) for prompt in wanted)):
                fetched = await self.loader.fetch(wanted)
                self._device.hand_in(Job(self.residence, image, digests, fetched, since, deadline, said))
                return await said
        finally:
            del said  # an error knows this frame: if it were known here, both would stay, with the picture


def fitting(sizes_bytes: Iterable[int], room_bytes: int) -> int:
    """How many of them, from the first on, fit into the room; one does in any case."""
    total_bytes = count = 0
    for size_bytes in sizes_bytes:
        total_bytes += size_bytes
        if count and total_bytes > room_bytes:
            break
        count += 1
    return count


def merge(said: Sequence[PictureLogits]) -> PictureLogits:
    """What several passes found for one picture; its embedding is the same in each."""
    logits = {digest: row for one in said for digest, row in one.logits.items()}
    residents = {digest: resident for one in said for digest, resident in one.residents.items()}
    return PictureLogits(logits, residents, said[0].embedding)
