"""A shard that fails: its error says what to do, the log holds no values of it, and other shards are trained."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from unittest.mock import Mock
from uuid import UUID

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import WeightsUnavailable
from registry.catalog.tasks import Setting
from registry.errors import Invalid
from registry.storage.keys import sample_key
from tests.cli.fixtures import draw
from tests.registry.database_fixtures import sqlite_only
from tests.trainer.worker.fixtures import WorkerHarness, read_samples
from trainer.worker import job
from trainer.worker.backbones import WorkerBackbones
from trainer.worker.log import LOGGER
from trainer.worker.worker import JobCounts, Worker

pytestmark = sqlite_only


def shard_error(harness: WorkerHarness, source: UUID) -> str:
    """Return the error of the source's only shard, which must be released and backing off."""
    [shard] = harness.load_shards(source)
    assert (shard.lease_id, shard.attempts) == (None, 1)
    assert shard.not_before is not None
    assert harness.list_scratch() == []
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
    harness: WorkerHarness, recipe: dict[str, Setting], message: str
) -> None:
    source = harness.add_source(harness.add_task(recipe))

    counts = harness.train_all()

    assert counts == JobCounts(published=0, failed=1, lost=0)
    assert message in shard_error(harness, source)


def test_a_shard_that_cannot_be_trained_is_released_and_the_next_is_trained(
    harness: WorkerHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task, damaged = harness.add_task(), draw(tmp_path / "burrow", labels=("emu",))
    first = harness.add_source(task, damaged, name="burrow")
    [shard], [lost, *_] = harness.load_shards(first), read_samples(damaged)
    harness.registry.objects.remove(sample_key(first, shard.id, lost.digest))
    others = harness.add_source(task, name="others")
    caplog.set_level(logging.INFO, LOGGER)

    counts = harness.train_all()

    assert counts == JobCounts(published=1, failed=1, lost=0)
    assert lost.digest in shard_error(harness, first)
    assert len(harness.load_prompts(others)) == 1
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
    harness: WorkerHarness, backbone_of: Callable[[str], Backbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = harness.add_task()
    harness.add_source(task, name="first")
    harness.train_all()
    second = harness.add_source(task, name="second")
    monkeypatch.setattr(job, "download_samples", None)

    counts = replace(harness, backbone=backbone_of("one block")).train_all()

    assert counts.failed == 1
    assert "other weights of vit_tiny_patch16_224" in shard_error(harness, second)


def test_unavailable_weights_are_the_shards_error_and_are_tried_again_for_the_next(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    task = harness.add_task()
    first = harness.add_source(task, name="first")
    harness.add_source(task, name="second")
    build = Mock(side_effect=[WeightsUnavailable("no hub answered"), harness.backbone])

    counts = Worker(harness.registry, WorkerBackbones(build), "ann", cache_bytes=0).run(Event(), once=True)

    assert counts == JobCounts(published=1, failed=1, lost=0)
    assert shard_error(harness, first) == "no hub answered"
    [failed] = [record for record in caplog.records if record.getMessage() == "training failed"]
    assert vars(failed)["fields"]["reason"] == "no hub answered"


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB")])
def test_too_little_memory_is_an_error_with_advice(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    source = harness.add_source()
    monkeypatch.setattr(job, "train_shard", Mock(side_effect=error))

    counts = harness.train_all()

    assert counts.failed == 1
    assert "too little memory for this shard: use a smaller batch" in shard_error(harness, source)


def test_the_message_of_an_unexpected_error_is_neither_stored_nor_logged(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = harness.add_source()
    monkeypatch.setattr(job, "train_shard", Mock(side_effect=KeyError("a label of somebody")))

    harness.train_all()

    assert shard_error(harness, source) == "training failed unexpectedly (KeyError): see the worker's log"
    [failed] = [record for record in caplog.records if record.getMessage() == "training failed"]
    assert "train_shard" in vars(failed)["fields"]["trace"]
    assert "somebody" not in str(vars(failed))


def test_the_error_of_a_full_disk_holds_no_path_of_the_machine(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = harness.add_source()
    monkeypatch.setattr("os.posix_fallocate", Mock(side_effect=OSError(28, "No space left on device")))

    harness.train_all()

    error = shard_error(harness, source)
    assert "no space for a state cache" in error
    assert "in the worker's scratch" in error
    assert str(harness.registry.scratch.folder) not in error


def test_a_worker_without_a_name_is_refused(harness: WorkerHarness) -> None:
    with pytest.raises(Invalid, match="needs a name"):
        harness.make_worker(" \n")
