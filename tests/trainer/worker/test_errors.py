"""One bad shard: its error is kept with a line that helps, nothing of it is in the log, and the others are trained."""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from registry.catalog.tasks import Setting
from registry.errors import Invalid
from registry.registry import Registry
from registry.storage.keys import sample_key
from tests.cli.fixtures import draw
from tests.trainer.worker.conftest import on_sqlite
from tests.trainer.worker.fixtures import (
    RECIPE,
    add_source,
    add_task,
    files_in_scratch,
    prompts_of,
    samples_in,
    shards_of,
    work_off,
    worker_on,
)
from trainer.worker import job
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.log_events import LOG
from trainer.worker.worker import JobCounts, Worker

pytestmark = on_sqlite


def error_of(registry: Registry, source: UUID) -> str:
    """The error of the source's only shard, which is given back and left alone for a while."""
    [shard] = shards_of(registry, source)
    assert (shard.lease_id, shard.attempts) == (None, 1)
    assert shard.not_before is not None
    assert files_in_scratch(registry) == []
    assert shard.error is not None
    return shard.error


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        ({"epoch": 3}, "the unknown setting 'epoch': use augment, base_rate, batch, epochs"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"epochs": "many"}, "epochs must be a whole number, not 'many'"),
        ({"seed": 3}, "every shard has its own"),
    ],
)
def test_a_recipe_that_means_nothing_is_the_shards_error(
    registry: Registry, backbone: Backbone, pictures: Path, recipe: dict[str, Setting], told: str
) -> None:
    source = add_source(registry, add_task(registry, recipe), pictures)

    tally = work_off(registry, backbone)

    assert tally == JobCounts(published=0, failed=1, lost=0)
    assert told in error_of(registry, source)


def test_a_shard_that_cannot_be_trained_is_given_back_and_the_next_is_trained(
    registry: Registry, backbone: Backbone, pictures: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task, damaged = add_task(registry), draw(tmp_path / "burrow", labels=("emu",))
    first = add_source(registry, task, damaged, name="burrow")
    [shard], [lost, *_] = shards_of(registry, first), samples_in(damaged)
    registry.objects.remove(sample_key(first, shard.id, lost.digest))
    others = add_source(registry, task, pictures, name="others")
    caplog.set_level(logging.INFO, LOG)

    tally = work_off(registry, backbone)

    assert tally == JobCounts(published=1, failed=1, lost=0)
    assert lost.digest in error_of(registry, first)
    assert len(prompts_of(registry, others)) == 1
    events = [record.getMessage() for record in caplog.records]
    assert events == [
        "worker started", "leased", "failed", "leased", "training", "training", "trained", "published", "worker stopped"
    ]  # fmt: skip
    told = " ".join(str(vars(record)) for record in caplog.records)
    assert str(shard.id) in told
    assert not any(secret in told for secret in ("emu", "burrow", "others", "colours", ".png"))


def test_other_weights_than_the_tasks_are_refused_before_anything_is_fetched(
    registry: Registry, backbone_of: Callable[[str], Backbone], pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = add_task(registry)
    add_source(registry, task, pictures, name="first")
    work_off(registry, backbone_of("plain"))
    second = add_source(registry, task, pictures, name="second")
    monkeypatch.setattr(job, "download_samples", None)

    tally = work_off(registry, backbone_of("one block"))

    assert tally.failed == 1
    assert "other weights of vit_tiny_patch16_224" in error_of(registry, second)


def test_weights_that_cannot_be_had_are_told_and_asked_for_again_by_the_next_shard(
    registry: Registry, backbone: Backbone, pictures: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = add_task(registry)
    first = add_source(registry, task, pictures, name="first")
    add_source(registry, task, pictures, name="second")
    answers: list[Backbone | Exception] = [WeightsUnavailable("no hub answered"), backbone]

    def build(name: str, size: int | None) -> Backbone:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    tally = run_once(Worker(registry, WorkerBackbones(build), "ann", cache_bytes=0))

    assert tally == JobCounts(published=1, failed=1, lost=0)
    assert error_of(registry, first) == "no hub answered"
    [failed] = [record for record in caplog.records if record.getMessage() == "failed"]
    assert vars(failed)["fields"]["reason"] == "no hub answered"


def test_a_picture_that_the_store_has_lost_is_named_by_its_digest(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    [shard] = shards_of(registry, source)
    lost = samples_in(pictures)[5]
    registry.objects.remove(sample_key(source, shard.id, lost.digest))

    work_off(registry, backbone)

    assert lost.digest in error_of(registry, source)


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB")])
def test_too_little_memory_is_told_in_our_words(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    monkeypatch.setattr(job, "train_shard", raising(error))

    tally = work_off(registry, backbone)

    assert tally.failed == 1
    assert "too little memory for this shard: use a smaller batch" in error_of(registry, source)


def test_the_text_of_an_unforeseen_error_is_told_to_nobody(
    registry: Registry,
    backbone: Backbone,
    pictures: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    monkeypatch.setattr(job, "train_shard", raising(KeyError("a label of somebody")))

    work_off(registry, backbone)

    assert error_of(registry, source) == "training failed unexpectedly (KeyError): the worker's log tells where"
    [failed] = [record for record in caplog.records if record.getMessage() == "failed"]
    assert "train_shard" in vars(failed)["fields"]["trace"]
    assert "somebody" not in str(vars(failed))


def test_a_full_disk_is_told_without_the_machines_paths(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(28, "No space left on device")

    source = add_source(registry, add_task(registry, RECIPE), pictures)
    monkeypatch.setattr("os.posix_fallocate", refuse)

    work_off(registry, backbone)

    told = error_of(registry, source)
    assert "no space for a state cache" in told
    assert "in the worker's scratch" in told
    assert str(registry.scratch.folder) not in told


def run_once(worker: Worker) -> JobCounts:
    return worker.run(Event(), once=True)


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_worker_without_a_name_is_refused(registry: Registry, backbone: Backbone) -> None:
    with pytest.raises(Invalid, match="needs a name"):
        worker_on(registry, backbone, " \n")
