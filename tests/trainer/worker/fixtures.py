"""A registry with pictures to train, and workers in a thread."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Self
from unittest.mock import patch
from uuid import UUID

from sqlalchemy import select, update

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from registry.access.caller import OPERATOR
from registry.catalog.shard_assignment import assign_shard
from registry.catalog.sources import KEY_BYTES
from registry.catalog.tasks import Setting, create_task
from registry.datasets.dataset import LabelledPicture
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Shard, Task
from registry.db.models.prompts import Prompt
from registry.ingest.upload import upload_source
from registry.registry import Registry
from tests.servers.processes import wait_until
from tests.trainer.pictures import as_sample
from trainer.recipe import recipe_from_settings
from trainer.train import train_shard
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.worker import JobCounts, Worker

RECIPE: dict[str, Setting] = {"epochs": 2, "batch": 4, "memory": 2, "prototypes": 3, "augment": "none"}
ENDLESS: dict[str, Setting] = {**RECIPE, "epochs": 10**9}


def read_samples(pictures: Path) -> list[LabelledPicture]:
    return [as_sample(path, path.parent.name) for path in sorted(pictures.glob("*/*.png"))]


def make_worker(registry: Registry, backbone: Backbone, name: str = "ann") -> Worker:
    backbones = WorkerBackbones(lambda *_: backbone)
    return Worker(registry, backbones, name, cache_bytes=10**7, poll_seconds=0.05, heartbeat_seconds=0.05)


class WorkerThread:
    """Runs a worker in a thread until the end of the block."""

    def __init__(self, worker: Worker) -> None:
        self.stop = Event()
        self._counts: list[JobCounts] = []
        self._thread = Thread(target=lambda: self._counts.append(worker.run(self.stop)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(60)

    def end(self) -> JobCounts:
        """Stop the worker and return its counts."""
        self.__exit__()
        [counts] = self._counts
        return counts


@dataclass(frozen=True)
class WorkerHarness:
    """A registry, and the backbone and the pictures that its workers train with."""

    registry: Registry
    backbone: Backbone
    pictures: Path

    def add_task(self, recipe: Mapping[str, Setting] = RECIPE, name: str = "colours") -> UUID:
        with self.registry.database.write_transaction() as session:
            return create_task(
                session, OPERATOR, name, backbone="vit_tiny_patch16_224", size=32, labels=None, recipe=recipe
            ).id

    def add_source(
        self, task: UUID | None = None, pictures: Path | None = None, *, name: str = "birds", shards: int = 1
    ) -> UUID:
        """Upload the pictures with a shard key that leaves no shard empty."""
        pictures = pictures or self.pictures
        digests = [sample.digest for sample in read_samples(pictures)]
        keys = (number.to_bytes(KEY_BYTES, "big") for number in count(1))
        key = next(key for key in keys if len({assign_shard(digest, key, shards) for digest in digests}) == shards)
        with patch("registry.ingest.target.secrets.token_bytes", return_value=key):
            task = task or self.add_task()
            return upload_source(self.registry, OPERATOR, task, name, pictures, shards=shards).source_id

    def set_recipe(self, task: UUID, recipe: Mapping[str, Setting]) -> None:
        with self.registry.database.write_transaction() as session:
            session.execute(update(Task).where(Task.id == task).values(recipe=dict(recipe)))

    def load_task(self, task: UUID) -> Task:
        with self.registry.database.read_transaction() as session:
            return session.get_one(Task, task)

    def load_shards(self, source: UUID) -> list[Shard]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Shard).where(Shard.source_id == source).order_by(Shard.number)))

    def load_prompts(self, source: UUID) -> list[Prompt]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Prompt).where(Prompt.source_id == source)))

    def read_bytes(self, prompt: Prompt) -> bytes:
        return self.registry.objects.read(prompt.key, prompt.digest)

    def wait_for_training(self, source: UUID) -> None:
        """Wait until a shard of the source has reported progress."""
        wait_until(lambda: any(shard.progress for shard in self.load_shards(source)), "the training", wait_s=120)

    def expire_leases(self) -> None:
        """Expire all leases, as if no worker had sent a heartbeat for long."""
        with self.registry.database.write_transaction() as session:
            session.execute(update(Shard).where(Shard.lease_id.is_not(None)).values(expires_at=seconds_from_now(-1)))

    def train_directly(self, samples: list[LabelledPicture], seed: int) -> bytes:
        """Train the samples without a registry and return the prompt's bytes."""
        return prompt_to_bytes(train_shard(self.backbone, samples, recipe_from_settings(RECIPE, seed), cache_bytes=0))

    def list_scratch(self) -> list[str]:
        """List the files of jobs in the scratch folder."""
        folder = self.registry.scratch.folder
        return sorted(path.name for path in folder.rglob("*") if path.name != "scratch-id") if folder.exists() else []

    def list_scratch_pictures(self) -> list[Path]:
        """List the downloaded pictures; an idle worker makes an empty folder with every poll."""
        walk = os.walk(self.registry.scratch.folder)  # tolerates files that are removed meanwhile
        return [Path(folder, name) for folder, _, names in walk if Path(folder).name == "pictures" for name in names]

    def make_worker(self, name: str = "ann") -> Worker:
        return make_worker(self.registry, self.backbone, name)

    def train_all(self) -> JobCounts:
        """Train all shards that wait."""
        return self.make_worker().run(Event(), once=True)

    def run_worker(self) -> WorkerThread:
        return WorkerThread(self.make_worker())
