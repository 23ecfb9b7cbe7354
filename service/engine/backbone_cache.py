"""The backbones of this replica: built at the first request of a task, and kept while they are used."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

import torch

from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.errors import PromptingError
from registry.access.usable_prompts import TaskConfig
from service.concurrency import run_detached
from service.engine.errors import BackboneUnavailable, BackboneWeightsMismatch
from service.engine.settings import EngineSettings

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0  # after a failed build, which may take seconds to fail again

Key = tuple[str, int | None]  # the architecture and the picture size
Build = Callable[[str, int | None, EngineSettings], Backbone]  # may take seconds: it runs in a thread


def build(name: str, size: int | None, settings: EngineSettings) -> Backbone:
    """Build the backbone with the weights, the device and the precision of the settings."""
    dtype: torch.dtype = getattr(torch, settings.dtype)
    return build_backbone(name, settings.weights, size, settings.device, dtype, log=log.info)


class BackboneCache:
    """At most `settings.max_backbones` backbones; the least recently used leaves."""

    def __init__(self, settings: EngineSettings, build: Build = build) -> None:
        self._settings = settings
        self._build = build
        self._backbones: dict[Key, Backbone] = {}  # the least recently used first
        self._builds: dict[Key, asyncio.Future[Backbone]] = {}
        self._failures: dict[Key, tuple[float, str]] = {}  # the time and the reason

    @property
    def in_memory(self) -> tuple[Backbone, ...]:
        """Return the cached backbones."""
        return tuple(self._backbones.values())

    async def get(self, task: TaskConfig) -> Backbone:
        """Return the task's backbone, with the weights that its prompts were trained on."""
        key = (task.backbone, task.size)
        backbone = self._backbones.pop(key, None)
        if backbone is None:
            backbone = await self._build_once(key)
            self._backbones.pop(key, None)
        self._backbones[key] = backbone
        while len(self._backbones) > self._settings.max_backbones:
            del self._backbones[next(iter(self._backbones))]
        if task.identity is not None and task.identity != backbone.identity:
            raise BackboneWeightsMismatch(task.backbone, task.identity, backbone.identity)
        return backbone

    async def _build_once(self, key: Key) -> Backbone:
        """Build a backbone once for all waiters, and to the end even if they are all cancelled."""
        building = self._builds.get(key)
        if building is None:
            self._require_no_recent_failure(key)
            # In a daemon thread: a download of gigabytes cannot be interrupted, and must not delay the exit.
            building = run_detached("backbone", partial(self._build, *key, self._settings))
            self._builds[key] = building
            building.add_done_callback(partial(self._finish, key))
        try:
            return await asyncio.shield(building)
        except PromptingError as error:
            reason = f"this replica cannot build the backbone {key[0]}: {error}"
            self._failures[key] = (time.monotonic(), reason)
            raise BackboneUnavailable(reason, RETRY_SECONDS) from error

    def _finish(self, key: Key, building: asyncio.Future[Backbone]) -> None:
        del self._builds[key]
        if not building.cancelled():
            building.exception()  # mark it as retrieved: all waiters may be gone

    def _require_no_recent_failure(self, key: Key) -> None:
        failed_at, reason = self._failures.get(key, (-RETRY_SECONDS, ""))
        wait_s = failed_at + RETRY_SECONDS - time.monotonic()
        if wait_s > 0:
            raise BackboneUnavailable(reason, wait_s)
        self._failures.pop(key, None)
