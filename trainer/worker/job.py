"""One attempt at a leased shard: pictures in, a prompt trained from them out, and into the registry."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import BackboneMismatch
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.db.models.prompts import Prompt as PublishedPrompt
from registry.errors import DatabaseUnreachable
from registry.registry import Registry
from registry.storage.errors import StoreUnreachable
from registry.training.lease import Lease, lease_lost
from registry.training.publish import PublishedMetadata, publish
from trainer.optimize import TrainingProgress
from trainer.recipe import recipe_from_settings
from trainer.train import count_steps, train_shard
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.download import download_samples
from trainer.worker.heartbeat import LeaseHeartbeat
from trainer.worker.log_events import log_event

LINES = 10  # of progress that a training tells, at most
PATIENCE_SECONDS = 300.0  # for a database or store that is away when a prompt is finished
AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class TrainingJob:
    """A lease, the room for its files, and what keeps it; `check` raises when the work has to stop."""

    registry: Registry
    lease: Lease
    room: Path
    heartbeat: LeaseHeartbeat
    check: Callable[[], None]
    pause: Callable[[float], None]  # waits for so many seconds, and raises when the worker has to stop

    def run(self, backbones: WorkerBackbones, cache_bytes: int) -> PublishedPrompt:
        """The prompt of the shard, published."""
        prompt = self._train(backbones, cache_bytes)
        data = prompt_to_bytes(prompt)
        return self._publish(data, PublishedMetadata.of(prompt.metadata))

    def _train(self, backbones: WorkerBackbones, cache_bytes: int) -> TrainedPrompt:
        lease = self.lease
        recipe = recipe_from_settings(
            lease.task.recipe, lease.seed
        )  # what can be refused is refused before it costs anything
        backbone = backbones.get(lease.task.backbone, lease.task.size, self.check)
        _require_same(backbone, lease)
        samples = download_samples(self.registry.objects, lease, self.room / "pictures", self.check)
        steps = count_steps(len(samples), recipe)
        done = 0

        def step() -> None:
            nonlocal done
            self.check()
            self.heartbeat.progress = done / steps
            done += 1

        start = time.monotonic()
        prompt = train_shard(backbone, samples, recipe, cache_bytes, self._report, self.room, step)
        log_event(
            "trained", shard=str(lease.shard_id), samples=len(samples), seconds=round(time.monotonic() - start, 3)
        )
        return prompt

    def _report(self, progress: TrainingProgress) -> None:
        if progress.epoch % -(-progress.epochs // LINES) == 0 or progress.epoch == progress.epochs:
            log_event(
                "training",
                shard=str(self.lease.shard_id),
                epoch=progress.epoch,
                epochs=progress.epochs,
                loss=round(progress.loss, 4),
            )

    def _publish(self, data: bytes, facts: PublishedMetadata) -> PublishedPrompt:
        """Publishes, and asks again if nobody answers: a training is not thrown away for that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return publish(self.registry, self.lease, data, facts)
            except (DatabaseUnreachable, StoreUnreachable) as error:
                # Whether the heartbeat found the lease gone says nothing here: it may be gone by being published.
                if self.heartbeat.is_late:
                    raise lease_lost(self.lease) from error
                if time.monotonic() > deadline:
                    raise
                self.pause(AGAIN_SECONDS)


def _require_same(backbone: Backbone, lease: Lease) -> None:
    if lease.task.identity not in (None, backbone.identity):
        raise BackboneMismatch(
            f"this worker has other weights of {lease.task.backbone} than those that the task's prompts were trained "
            "with: start it with the same --weights"
        )
