"""A shard that fails: its error says what to do, the log holds no values of it, and other shards are trained."""

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
from tests.registry.database_fixtures import sqlite_only
from tests.trainer.worker.fixtures import (
    RECIPE,
    add_source,
    add_task,
    list_scratch,
    load_prompts,
    load_shards,
    make_worker,
    read_samples,
    train_all,
)
from trainer.worker import job
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.log import LOGGER
from trainer.worker.worker import JobCounts, Worker

pytestmark = sqlite_only


def shard_error(registry: Registry, source: UUID) -> str:
    """Return the error of the source's only shard, which must be released and backing off."""
    [shard] = load_shards(registry, source)
    assert (shard.lease_id, shard.attempts) == (None, 1)
    assert shard.not_before is not None
    assert list_scratch(registry) == []
    assert shard.error is not None
    return shard.error


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"epoch": 3}, "the unknown setting 'epoch': use augment, base_rate, batch, epochs"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"epochs": "many"}, "epochs must be a whole number, not 'many'"),
        ({"seed": 3}, "every shard has its own"),
    ],
)
def test_an_invalid_recipe_is_the_shards_error(
    registry: Registry, backbone: Backbone, pictures: Path, recipe: dict[str, Setting], message: str
) -> None:
    source = add_source(registry, add_task(registry, recipe), pictures)

    counts = train_all(registry, backbone)

    assert counts == JobCounts(published=0, failed=1, lost=0)
    assert message in shard_error(registry, source)


def test_a_shard_that_cannot_be_trained_is_released_and_the_next_is_trained(
    registry: Registry, backbone: Backbone, pictures: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task, damaged = add_task(registry), draw(tmp_path / "burrow", labels=("emu",))
    first = add_source(registry, task, damaged, name="burrow")
    [shard], [lost, *_] = load_shards(registry, first), read_samples(damaged)
    registry.objects.remove(sample_key(first, shard.id, lost.digest))
    others = add_source(registry, task, pictures, name="others")
    caplog.set_level(logging.INFO, LOGGER)

    counts = train_all(registry, backbone)

    assert counts == JobCounts(published=1, failed=1, lost=0)
    assert lost.digest in shard_error(registry, first)
    assert len(load_prompts(registry, others)) == 1
    events = [record.getMessage() for record in caplog.records]
    assert events == [
        "worker started",
        "shard leased",
        "training failed",
        "shard leased",
        "training",
        "training",
        "training finished",
        "prompt published",
        "worker stopped",
    ]
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert str(shard.id) in logged
    assert not any(secret in logged for secret in ("emu", "burrow", "others", "colours", ".png"))


def test_other_weights_than_the_tasks_are_refused_before_the_download(
    registry: Registry, backbone_of: Callable[[str], Backbone], pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = add_task(registry)
    add_source(registry, task, pictures, name="first")
    train_all(registry, backbone_of("plain"))
    second = add_source(registry, task, pictures, name="second")
    monkeypatch.setattr(job, "download_samples", None)

    counts = train_all(registry, backbone_of("one block"))

    assert counts.failed == 1
    assert "other weights of vit_tiny_patch16_224" in shard_error(registry, second)


def test_unavailable_weights_are_the_shards_error_and_are_tried_again_for_the_next(
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

    counts = run_until_idle(Worker(registry, WorkerBackbones(build), "ann", cache_bytes=0))

    assert counts == JobCounts(published=1, failed=1, lost=0)
    assert shard_error(registry, first) == "no hub answered"
    [failed] = [record for record in caplog.records if record.getMessage() == "training failed"]
    assert vars(failed)["fields"]["reason"] == "no hub answered"


def test_a_picture_that_the_store_has_lost_is_named_by_its_digest(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    [shard] = load_shards(registry, source)
    lost = read_samples(pictures)[5]
    registry.objects.remove(sample_key(source, shard.id, lost.digest))

    train_all(registry, backbone)

    assert lost.digest in shard_error(registry, source)


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB")])
def test_too_little_memory_is_an_error_with_advice(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    monkeypatch.setattr(job, "train_shard", raise_error(error))

    counts = train_all(registry, backbone)

    assert counts.failed == 1
    assert "too little memory for this shard: use a smaller batch" in shard_error(registry, source)


def test_the_message_of_an_unexpected_error_is_neither_stored_nor_logged(
    registry: Registry,
    backbone: Backbone,
    pictures: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    monkeypatch.setattr(job, "train_shard", raise_error(KeyError("a label of somebody")))

    train_all(registry, backbone)

    assert shard_error(registry, source) == "training failed unexpectedly (KeyError): see the worker's log"
    [failed] = [record for record in caplog.records if record.getMessage() == "training failed"]
    assert "train_shard" in vars(failed)["fields"]["trace"]
    assert "somebody" not in str(vars(failed))


def test_the_error_of_a_full_disk_holds_no_path_of_the_machine(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(28, "No space left on device")

    source = add_source(registry, add_task(registry, RECIPE), pictures)
    monkeypatch.setattr("os.posix_fallocate", refuse)

    train_all(registry, backbone)

    error = shard_error(registry, source)
    assert "no space for a state cache" in error
    assert "in the worker's scratch" in error
    assert str(registry.scratch.folder) not in error


def run_until_idle(worker: Worker) -> JobCounts:
    return worker.run(Event(), once=True)


def raise_error(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_worker_without_a_name_is_refused(registry: Registry, backbone: Backbone) -> None:
    with pytest.raises(Invalid, match="needs a name"):
        make_worker(registry, backbone, " \n")
