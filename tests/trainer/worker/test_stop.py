"""A worker stops at once when its shard is forgotten or cancelled or it has to stop, and leaves no files."""

from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR
from registry.db.models.erasures import Erasure
from registry.erasure.request import forget_sample, forget_source
from registry.storage import write_claims
from registry.storage.keys import source_prefix
from registry.training.control import cancel_training
from tests.registry.database_fixtures import sqlite_only
from tests.servers.processes import wait_until
from tests.trainer.worker.fixtures import ENDLESS, RECIPE, WorkerHarness, read_samples
from trainer.worker.worker import JobCounts


def is_complete(harness: WorkerHarness, erasure: UUID) -> bool:
    with harness.registry.database.read_transaction() as session:
        return session.get_one(Erasure, erasure).completed_at is not None


def states_are_mapped(harness: WorkerHarness) -> bool:
    """Whether this process maps a state cache in the scratch folder; the file has no name there."""
    return str(harness.registry.scratch.folder) in Path("/proc/self/maps").read_text()


def test_forgetting_the_source_stops_its_training_and_is_completed(harness: WorkerHarness) -> None:
    source = harness.add_source(harness.add_task(ENDLESS))
    with harness.run_worker() as run:
        harness.wait_for_training(source)
        assert states_are_mapped(harness)
        assert harness.list_scratch_pictures()

        erasure = forget_source(harness.registry, OPERATOR, source)

        wait_until(lambda: is_complete(harness, erasure.id), "the erasure")
        assert harness.list_scratch_pictures() == []
        assert not states_are_mapped(harness)
        counts = run.end()
    assert counts == JobCounts(published=0, failed=0, lost=1)
    assert list(harness.registry.objects.list_all(source_prefix(source))) == []


@sqlite_only
def test_no_state_of_a_picture_is_left_when_the_claim_is_released(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = harness.add_source(harness.add_task(ENDLESS))
    mapped: list[bool] = []
    release_claim = write_claims.release_claim

    def record_and_release(session: Session, claim: UUID) -> None:
        mapped.append(states_are_mapped(harness))
        release_claim(session, claim)

    monkeypatch.setattr(write_claims, "release_claim", record_and_release)
    with harness.run_worker() as run:
        harness.wait_for_training(source)
        assert states_are_mapped(harness)
        run.end()

    assert mapped == [False]


def test_forgetting_a_sample_during_training_trains_the_shard_without_it(harness: WorkerHarness) -> None:
    task = harness.add_task(ENDLESS)
    source = harness.add_source(task)
    [shard] = harness.load_shards(source)
    forgotten, *others = read_samples(harness.pictures)
    with harness.run_worker() as run:
        harness.wait_for_training(source)
        harness.set_recipe(task, RECIPE)

        erasure = forget_sample(harness.registry, OPERATOR, source, forgotten.digest)

        wait_until(lambda: bool(harness.load_prompts(source)), "the prompt of the others")
        wait_until(lambda: is_complete(harness, erasure.id), "the erasure")
        assert run.end() == JobCounts(published=1, failed=0, lost=1)
    [prompt] = harness.load_prompts(source)
    assert harness.read_bytes(prompt) == harness.train_directly(others, shard.seed)


@sqlite_only
def test_cancelled_training_stops_and_is_not_resumed(harness: WorkerHarness) -> None:
    source = harness.add_source(harness.add_task(ENDLESS))
    with harness.run_worker() as run:
        harness.wait_for_training(source)

        with harness.registry.database.write_transaction() as session:
            cancel_training(session, OPERATOR, source)

        wait_until(lambda: not harness.list_scratch_pictures(), "the end of the training")
        assert run.end() == JobCounts(published=0, failed=0, lost=1)
    [shard] = harness.load_shards(source)
    assert (shard.is_paused, shard.lease_id, shard.error) == (True, None, None)


@sqlite_only
def test_a_worker_whose_lease_ran_out_stops(harness: WorkerHarness) -> None:
    task = harness.add_task(ENDLESS)
    source = harness.add_source(task)
    with harness.run_worker() as run:
        harness.wait_for_training(source)
        harness.set_recipe(task, RECIPE)

        harness.expire_leases()

        wait_until(lambda: harness.load_shards(source)[0].not_before is not None, "the end of the training")
        assert run.end().lost == 1


@sqlite_only
@pytest.mark.parametrize("while_training", [True, False], ids=["during the training", "at once"])
def test_a_worker_that_has_to_stop_releases_its_shard(harness: WorkerHarness, while_training: bool) -> None:
    source = harness.add_source(harness.add_task(ENDLESS))
    with harness.run_worker() as run:
        if while_training:
            harness.wait_for_training(source)

        counts = run.end()

    assert counts == JobCounts(published=0, failed=0, lost=0)
    [shard] = harness.load_shards(source)
    assert (shard.lease_id, shard.attempts, shard.error, shard.not_before) == (None, 0, None, None)
    assert harness.list_scratch() == []
