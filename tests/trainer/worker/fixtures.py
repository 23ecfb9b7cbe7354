"""Tasks and sources with pictures to train, and workers in a thread."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread
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
CACHE_BYTES = 10**7
TIMEOUT_SECONDS = 60


def add_task(registry: Registry, recipe: Mapping[str, Setting] = RECIPE, name: str = "colours") -> UUID:
    with registry.database.write_transaction() as session:
        return create_task(
            session, OPERATOR, name, backbone="vit_tiny_patch16_224", size=32, labels=None, recipe=recipe
        ).id


def add_source(registry: Registry, task: UUID, pictures: Path, *, name: str = "birds", shards: int = 1) -> UUID:
    """Upload the pictures with a shard key that leaves no shard empty."""
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in pictures.rglob("*.png")]
    for number in count(1):
        key = number.to_bytes(KEY_BYTES, "big")
        if len({assign_shard(digest, key, shards) for digest in digests}) == shards:
            break
    with patch("registry.ingest.target.secrets.token_bytes", return_value=key):
        return upload_source(registry, OPERATOR, task, name, pictures, shards=shards).source_id


def set_recipe(registry: Registry, task: UUID, recipe: Mapping[str, Setting]) -> None:
    with registry.database.write_transaction() as session:
        session.execute(update(Task).where(Task.id == task).values(recipe=dict(recipe)))


def load_task(registry: Registry, task: UUID) -> Task:
    with registry.database.read_transaction() as session:
        return session.get_one(Task, task)


def load_shards(registry: Registry, source: UUID) -> list[Shard]:
    with registry.database.read_transaction() as session:
        return list(session.scalars(select(Shard).where(Shard.source_id == source).order_by(Shard.number)))


def load_prompts(registry: Registry, source: UUID) -> list[Prompt]:
    with registry.database.read_transaction() as session:
        return list(session.scalars(select(Prompt).where(Prompt.source_id == source)))


def read_bytes(registry: Registry, prompt: Prompt) -> bytes:
    return registry.objects.read(prompt.key, prompt.digest)


def is_training(registry: Registry, source: UUID) -> bool:
    """Whether a shard of the source has reported progress."""
    return any(shard.progress for shard in load_shards(registry, source))


def expire_leases(registry: Registry) -> None:
    """Expire all leases, as if no worker had sent a heartbeat for long."""
    with registry.database.write_transaction() as session:
        session.execute(update(Shard).where(Shard.lease_id.is_not(None)).values(expires_at=seconds_from_now(-1)))


def read_samples(pictures: Path) -> list[LabelledPicture]:
    return [as_sample(path, path.parent.name) for path in sorted(pictures.glob("*/*.png"))]


def train_directly(backbone: Backbone, samples: list[LabelledPicture], seed: int) -> bytes:
    """Train the samples without a registry and return the prompt's bytes."""
    return prompt_to_bytes(train_shard(backbone, samples, recipe_from_settings(RECIPE, seed), cache_bytes=0))


def list_scratch(registry: Registry) -> list[str]:
    """List the files of jobs in the scratch folder."""
    folder = registry.scratch.folder
    return sorted(path.name for path in folder.rglob("*") if path.name != "scratch-id") if folder.exists() else []


def list_scratch_pictures(registry: Registry) -> list[Path]:
    """List the downloaded pictures; an idle worker makes an empty folder with every poll."""
    walk = os.walk(registry.scratch.folder)  # tolerates files that are removed meanwhile
    return [Path(folder, name) for folder, _, names in walk if Path(folder).name == "pictures" for name in names]


def make_worker(registry: Registry, backbone: Backbone, name: str = "ann") -> Worker:
    return Worker(
        registry,
        WorkerBackbones(lambda *_: backbone),
        name,
        cache_bytes=CACHE_BYTES,
        poll_seconds=0.05,
        heartbeat_seconds=0.05,
    )


def train_all(registry: Registry, backbone: Backbone) -> JobCounts:
    """Train all shards that wait."""
    return make_worker(registry, backbone).run(Event(), once=True)


class WorkerThread:
    """Runs a worker in a thread."""

    def __init__(self, worker: Worker) -> None:
        self.stop = Event()
        self._counts: list[JobCounts] = []
        self._thread = Thread(target=lambda: self._counts.append(worker.run(self.stop)))
        self._thread.start()

    def end(self) -> JobCounts:
        """Stop the worker and return its counts."""
        self.stop.set()
        self._thread.join(TIMEOUT_SECONDS)
        [counts] = self._counts
        return counts


@contextmanager
def run_in_thread(worker: Worker) -> Iterator[WorkerThread]:
    run = WorkerThread(worker)
    try:
        yield run
    finally:
        run.stop.set()
        run._thread.join(TIMEOUT_SECONDS)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, what, wait_s=TIMEOUT_SECONDS)
