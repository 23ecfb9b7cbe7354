"""What tests of the worker begin with: pictures that wait for training, and a worker in a thread of its own."""

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
from registry.catalog.shards import assign_shard
from registry.catalog.sources import KEY_BYTES
from registry.catalog.tasks import Setting, create_task
from registry.datasets.dataset import LabelledPicture
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Shard, Task
from registry.db.models.prompts import Prompt
from registry.ingest.upload import upload_source
from registry.registry import Registry
from tests.servers.processes import until
from tests.trainer.pictures import as_sample
from trainer.recipe import recipe_from_settings
from trainer.train import train_shard
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.worker import JobCounts, Worker

RECIPE: dict[str, Setting] = {"epochs": 2, "batch": 4, "memory": 2, "prototypes": 3, "augment": "none"}
ENDLESS: dict[str, Setting] = {**RECIPE, "epochs": 10**9}
CACHE_BYTES = 10**7
PATIENCE_SECONDS = 60


def add_task(registry: Registry, recipe: Mapping[str, Setting] = RECIPE, name: str = "colours") -> UUID:
    with registry.database.write_transaction() as session:
        return create_task(
            session, OPERATOR, name, backbone="vit_tiny_patch16_224", size=32, labels=None, recipe=recipe
        ).id


def add_source(registry: Registry, task: UUID, pictures: Path, *, name: str = "birds", shards: int = 1) -> UUID:
    """A source none of whose shards is empty; chance alone would miss now and then."""
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


def task_now(registry: Registry, task: UUID) -> Task:
    with registry.database.read_transaction() as session:
        return session.get_one(Task, task)


def shards_of(registry: Registry, source: UUID) -> list[Shard]:
    with registry.database.read_transaction() as session:
        return list(session.scalars(select(Shard).where(Shard.source_id == source).order_by(Shard.number)))


def prompts_of(registry: Registry, source: UUID) -> list[Prompt]:
    with registry.database.read_transaction() as session:
        return list(session.scalars(select(Prompt).where(Prompt.source_id == source)))


def bytes_of(registry: Registry, prompt: Prompt) -> bytes:
    return registry.objects.read(prompt.key, prompt.digest)


def is_training(registry: Registry, source: UUID) -> bool:
    """Whether some shard of the source is in the midst of its training."""
    return any(shard.progress for shard in shards_of(registry, source))


def let_leases_run_out(registry: Registry) -> None:
    """As if all workers had been silent for long."""
    with registry.database.write_transaction() as session:
        session.execute(update(Shard).where(Shard.lease_id.is_not(None)).values(expires_at=seconds_from_now(-1)))


def samples_in(pictures: Path) -> list[LabelledPicture]:
    return [as_sample(path, path.parent.name) for path in sorted(pictures.glob("*/*.png"))]


def train_directly(backbone: Backbone, samples: list[LabelledPicture], seed: int) -> bytes:
    """What these samples teach without any registry."""
    return prompt_to_bytes(train_shard(backbone, samples, recipe_from_settings(RECIPE, seed), cache_bytes=0))


def files_in_scratch(registry: Registry) -> list[str]:
    """Whatever lies in the scratch folder that belongs to somebody's work."""
    folder = registry.scratch.folder
    return sorted(path.name for path in folder.rglob("*") if path.name != "home-id") if folder.exists() else []


def pictures_in_scratch(registry: Registry) -> list[Path]:
    """The fetched pictures; a worker that only looks for work makes an empty room each time."""
    walk = os.walk(registry.scratch.folder)  # which passes over what is removed while it looks
    return [Path(folder, name) for folder, _, names in walk if Path(folder).name == "pictures" for name in names]


def worker_on(registry: Registry, backbone: Backbone, name: str = "ann") -> Worker:
    return Worker(
        registry,
        WorkerBackbones(lambda *_: backbone),
        name,
        cache_bytes=CACHE_BYTES,
        poll_seconds=0.05,
        beat_seconds=0.05,
    )


def work_off(registry: Registry, backbone: Backbone) -> JobCounts:
    """Everything that can be trained is trained."""
    return worker_on(registry, backbone).run(Event(), once=True)


class Running:
    """A worker in a thread of its own."""

    def __init__(self, worker: Worker) -> None:
        self.stop = Event()
        self._tallies: list[JobCounts] = []
        self._thread = Thread(target=lambda: self._tallies.append(worker.run(self.stop)))
        self._thread.start()

    def end(self) -> JobCounts:
        """What it has done, after it was told to stop."""
        self.stop.set()
        self._thread.join(PATIENCE_SECONDS)
        [tally] = self._tallies
        return tally


@contextmanager
def running(worker: Worker) -> Iterator[Running]:
    run = Running(worker)
    try:
        yield run
    finally:
        run.stop.set()
        run._thread.join(PATIENCE_SECONDS)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until(condition, what, wait_s=PATIENCE_SECONDS)
