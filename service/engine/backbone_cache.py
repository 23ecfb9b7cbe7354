"""The backbones of this replica: built when a task first asks, and kept while they are used."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

import torch

from alacarte.prompting.backbone.build import build_backbone
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import PromptingError
from registry.access.usable_set import TaskConfig
from service.concurrency import run_detached
from service.engine.errors import BackboneUnavailable, BackboneWeightsMismatch
from service.engine.settings import EngineSettings

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0  # after a build that failed: it may have taken seconds to find out, and would again

Key = tuple[str, int | None]  # its name and the side of its pictures
Build = Callable[[str, int | None, EngineSettings], Backbone]  # may take seconds: it runs in a thread


def build(name: str, size: int | None, settings: EngineSettings) -> Backbone:
    """The backbone with the weights, on the device and in the precision of the settings."""
    dtype: torch.dtype = getattr(torch, settings.precision)
    return build_backbone(name, settings.weights, size, settings.device, dtype, log=log.info)


class BackboneCache:
    """At most `settings.backbones` of them; the one that was asked for longest ago leaves."""

    def __init__(self, settings: EngineSettings, build: Build = build) -> None:
        self._settings = settings
        self._build = build
        self._kept: dict[Key, Backbone] = {}  # the longest unused first
        self._building: dict[Key, asyncio.Future[Backbone]] = {}
        self._failed: dict[Key, tuple[float, str]] = {}  # when, and why

    @property
    def kept(self) -> tuple[Backbone, ...]:
        """Those in memory."""
        return tuple(self._kept.values())

    async def get(self, task: TaskConfig) -> Backbone:
        """The task's backbone, with the very weights that its prompts were trained on."""
        key = (task.backbone, task.size)
        backbone = self._kept.pop(key, None)
        if backbone is None:
            backbone = await self._built(key)
            self._kept.pop(key, None)
        self._kept[key] = backbone
        while len(self._kept) > self._settings.backbones:
            del self._kept[next(iter(self._kept))]
        if task.identity is not None and task.identity != backbone.identity:
            raise BackboneWeightsMismatch(task.backbone, task.identity, backbone.identity)
        return backbone

    async def _built(self, key: Key) -> Backbone:
        """Built once for everyone who waits, and to the end even if they all go."""
        building = self._building.get(key)
        if building is None:
            self._require_rest(key)
            # Left behind if the process ends: a download of gigabytes cannot be interrupted.
            building = run_detached("backbone", partial(self._build, *key, self._settings))
            self._building[key] = building
            building.add_done_callback(_forgetting(self._building, key))
        try:
            return await asyncio.shield(building)
        except PromptingError as error:
            reason = f"this replica cannot build {key[0]}: {error}"
            self._failed[key] = (time.monotonic(), reason)
            raise BackboneUnavailable(reason, RETRY_SECONDS) from error

    def _require_rest(self, key: Key) -> None:
        """BackboneUnavailable while the last build that failed is but a moment ago."""
        failed_at, reason = self._failed.get(key, (-RETRY_SECONDS, ""))
        left_s = failed_at + RETRY_SECONDS - time.monotonic()
        if left_s > 0:
            raise BackboneUnavailable(reason, left_s)
        self._failed.pop(key, None)


def _forgetting(building: dict[Key, asyncio.Future[Backbone]], key: Key) -> Callable[[asyncio.Future[Backbone]], None]:
    def forget(done: asyncio.Future[Backbone]) -> None:
        del building[key]
        if not done.cancelled():
            done.exception()  # seen, even if nobody waits any more

    return forget
