"""A training job: download the pictures of a leased shard, train its prompt, publish it."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import BackboneMismatch
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.datasets.dataset import LabelledPicture
from registry.db.database import Database
from registry.db.heartbeat import Heartbeat
from registry.db.models.prompts import Prompt
from registry.errors import DatabaseUnreachable
from registry.registry import Registry
from registry.storage.store import ObjectStore, StoreUnreachable
from registry.training.lease import Lease, LeasedSample, lease_lost, renew_lease
from registry.training.publish import PublishedMetadata, publish
from trainer.optimize import EpochProgress
from trainer.recipe import Recipe, recipe_from_settings
from trainer.train import count_steps, train_shard
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.errors import StopRequested
from trainer.worker.log import error_fields, log_event

DOWNLOAD_THREADS = 4
MAX_PROGRESS_EVENTS = 10  # of one training
PUBLISH_RETRY_SECONDS = 1.0
PUBLISH_TIMEOUT_SECONDS = 300.0  # for a database or store that is unreachable when a prompt is finished
CHECK_SECONDS = 0.2
SLEEP_SECONDS = 0.1


class LeaseHeartbeat(Heartbeat):
    """Renews the lease of a shard while it is trained, and reports the progress."""

    def __init__(self, database: Database, lease: Lease, leased_at: float, every_seconds: float) -> None:
        """`leased_at`: a monotonic time before the lease was taken."""
        self.progress = 0.0  # 0 to 1, set by the training
        super().__init__(
            lambda: renew_lease(database, lease, self.progress),
            every_seconds=every_seconds,
            lifetime_seconds=lease.seconds,
            renewed_at=leased_at,
            on_failure=lambda error: log_event(
                "heartbeat failed", level=logging.WARNING, shard=str(lease.shard_id), **error_fields(error)
            ),
        )


@dataclass(frozen=True)
class TrainingJob:
    """One attempt to train a leased shard; its files lie in `folder`."""

    registry: Registry
    lease: Lease
    folder: Path
    heartbeat: LeaseHeartbeat
    stop: Event

    def run(self, backbones: WorkerBackbones, cache_bytes: int) -> Prompt:
        """Download, train and publish; return the published prompt."""
        task = self.lease.task
        recipe = recipe_from_settings(task.recipe, self.lease.seed)  # first, because it costs nothing
        backbone = backbones.get(task.backbone, task.size, self.check)
        _check_identity(backbone, self.lease)
        samples = download_samples(self.registry.objects, self.lease, self.folder / "pictures", self.check)
        prompt = self._train(backbone, samples, recipe, cache_bytes)
        return self._publish(prompt_to_bytes(prompt), PublishedMetadata.from_artifact(prompt.metadata))

    def check(self) -> None:
        """Raise StopRequested or LeaseLost if the job has to end."""
        if self.stop.is_set():
            raise StopRequested
        self.heartbeat.check()

    def _train(
        self, backbone: Backbone, samples: tuple[LabelledPicture, ...], recipe: Recipe, cache_bytes: int
    ) -> TrainedPrompt:
        steps, done = count_steps(len(samples), recipe), 0

        def check_and_count() -> None:
            nonlocal done
            self.check()
            self.heartbeat.progress = done / steps
            done += 1

        started_at = time.monotonic()
        prompt = train_shard(backbone, samples, recipe, cache_bytes, self._report, self.folder, check_and_count)
        seconds = round(time.monotonic() - started_at, 3)
        log_event("training finished", shard=str(self.lease.shard_id), samples=len(samples), seconds=seconds)
        return prompt

    def _report(self, progress: EpochProgress) -> None:
        epochs_per_event = -(-progress.epochs // MAX_PROGRESS_EVENTS)
        if progress.epoch % epochs_per_event == 0 or progress.epoch == progress.epochs:
            log_event(
                "training",
                shard=str(self.lease.shard_id),
                epoch=progress.epoch,
                epochs=progress.epochs,
                loss=round(progress.loss, 4),
            )

    def _publish(self, data: bytes, metadata: PublishedMetadata) -> Prompt:
        """Publish, and retry while the database or store is unreachable, so that the training is not lost."""
        deadline = time.monotonic() + PUBLISH_TIMEOUT_SECONDS
        while True:
            try:
                return publish(self.registry, self.lease, data, metadata)
            except (DatabaseUnreachable, StoreUnreachable) as error:
                # Not `heartbeat.check`: the lease is also gone when an earlier try published without our knowing.
                if self.heartbeat.is_late:
                    raise lease_lost(self.lease) from error
                if time.monotonic() > deadline:
                    raise
                sleep_unless_stopped(self.stop, PUBLISH_RETRY_SECONDS)
                if self.stop.is_set():
                    raise StopRequested from error


def download_samples(
    store: ObjectStore, lease: Lease, folder: Path, check: Callable[[], None]
) -> tuple[LabelledPicture, ...]:
    """Download the lease's pictures into the folder, each compared with its digest; `check` can raise to stop it."""
    folder.mkdir()

    def download(sample: LeasedSample) -> None:
        store.download(sample.key, sample.digest, folder / sample.digest)

    with ThreadPoolExecutor(DOWNLOAD_THREADS, thread_name_prefix="download") as threads:
        try:
            running: set[Future[None]] = set()
            for sample in lease.samples:
                running.add(threads.submit(download, sample))
                while len(running) >= 2 * DOWNLOAD_THREADS:
                    running = _wait_for_some(running, check)
            while running:
                running = _wait_for_some(running, check)
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    # The name is for messages: by its digest the owner can find the picture again.
    return tuple(LabelledPicture(one.label, one.digest, one.digest, folder / one.digest) for one in lease.samples)


def _wait_for_some(running: set[Future[None]], check: Callable[[], None]) -> set[Future[None]]:
    """Return those that still run after a short wait; raise the error of a finished one."""
    check()
    done, left = wait(running, CHECK_SECONDS, FIRST_COMPLETED)
    for future in done:
        future.result()
    return left


def _check_identity(backbone: Backbone, lease: Lease) -> None:
    if lease.task.identity not in (None, backbone.identity):
        raise BackboneMismatch(
            f"this worker has other weights of {lease.task.backbone} than those that the task's prompts were trained "
            "with: start it with the same --weights"
        )


def sleep_unless_stopped(stop: Event, seconds: float) -> None:
    """Sleep, but not after `stop` is set.

    Not `stop.wait`: a signal handler that sets the event could find its lock held by the same thread.
    """
    end = time.monotonic() + seconds
    while not stop.is_set() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, SLEEP_SECONDS))
