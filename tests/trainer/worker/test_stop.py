"""A worker stops at once when its shard is forgotten or cancelled or it has to stop, and leaves no files."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from alacarte.prompting.backbone.vit import Backbone
from registry.access.caller import OPERATOR
from registry.db.models.erasures import Erasure
from registry.erasure.request import forget_sample, forget_source
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import source_prefix
from registry.training.control import cancel_training
from tests.registry.database_fixtures import sqlite_only
from tests.trainer.worker.fixtures import (
    ENDLESS,
    RECIPE,
    add_source,
    add_task,
    expire_leases,
    is_training,
    list_scratch,
    list_scratch_pictures,
    load_prompts,
    load_shards,
    make_worker,
    read_bytes,
    read_samples,
    run_in_thread,
    set_recipe,
    train_directly,
    wait_for,
)
from trainer.worker.worker import JobCounts


def is_complete(registry: Registry, erasure: UUID) -> bool:
    with registry.database.read_transaction() as session:
        return session.get_one(Erasure, erasure).completed_at is not None


def states_are_mapped(registry: Registry) -> bool:
    """Whether this process maps a state cache in the scratch folder; the file has no name there."""
    return str(registry.scratch.folder) in Path("/proc/self/maps").read_text()


def test_forgetting_the_source_stops_its_training_and_is_completed(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        assert states_are_mapped(registry)
        assert list_scratch_pictures(registry)

        erasure = forget_source(registry, OPERATOR, source)

        wait_for(lambda: is_complete(registry, erasure.id), "the erasure")
        assert list_scratch_pictures(registry) == []
        assert not states_are_mapped(registry)
        counts = run.end()
    assert counts == JobCounts(published=0, failed=0, lost=1)
    assert list(registry.objects.list_all(source_prefix(source))) == []


@sqlite_only
def test_no_state_of_a_picture_is_left_when_the_claim_is_released(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    mapped: list[bool] = []
    release_claim = write_claims.release_claim

    def record_and_release(session: Session, claim: UUID) -> None:
        mapped.append(states_are_mapped(registry))
        release_claim(session, claim)

    monkeypatch.setattr(write_claims, "release_claim", record_and_release)
    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        assert states_are_mapped(registry)
        run.end()

    assert mapped == [False]


def test_forgetting_a_sample_during_training_trains_the_shard_without_it(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    task = add_task(registry, ENDLESS)
    source = add_source(registry, task, pictures)
    [shard] = load_shards(registry, source)
    forgotten, *others = read_samples(pictures)
    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        set_recipe(registry, task, RECIPE)

        erasure = forget_sample(registry, OPERATOR, source, forgotten.digest)

        wait_for(lambda: bool(load_prompts(registry, source)), "the prompt of the others")
        wait_for(lambda: is_complete(registry, erasure.id), "the erasure")
        assert run.end() == JobCounts(published=1, failed=0, lost=1)
    [prompt] = load_prompts(registry, source)
    assert read_bytes(registry, prompt) == train_directly(backbone, others, shard.seed)


def cancel(registry: Registry, source: UUID) -> None:
    with registry.database.write_transaction() as session:
        cancel_training(session, OPERATOR, source)


@sqlite_only
def test_cancelled_training_stops_and_is_not_resumed(registry: Registry, backbone: Backbone, pictures: Path) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")

        cancel(registry, source)

        wait_for(lambda: not list_scratch_pictures(registry), "the end of the training")
        assert run.end() == JobCounts(published=0, failed=0, lost=1)
    [shard] = load_shards(registry, source)
    assert (shard.is_paused, shard.lease_id, shard.error) == (True, None, None)


@sqlite_only
def test_a_worker_whose_lease_ran_out_stops(registry: Registry, backbone: Backbone, pictures: Path) -> None:
    task = add_task(registry, ENDLESS)
    source = add_source(registry, task, pictures)
    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        set_recipe(registry, task, RECIPE)

        expire_leases(registry)

        wait_for(lambda: load_shards(registry, source)[0].not_before is not None, "the end of the training")
        assert run.end().lost == 1


@sqlite_only
@pytest.mark.parametrize("is_due", [is_training, lambda *_: True], ids=["during the training", "at once"])
def test_a_worker_that_has_to_stop_releases_its_shard(
    registry: Registry, backbone: Backbone, pictures: Path, is_due: Callable[[Registry, UUID], bool]
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with run_in_thread(make_worker(registry, backbone)) as run:
        wait_for(lambda: is_due(registry, source), "the training")

        counts = run.end()

    assert counts == JobCounts(published=0, failed=0, lost=0)
    [shard] = load_shards(registry, source)
    assert (shard.lease_id, shard.attempts, shard.error, shard.not_before) == (None, 0, None, None)
    assert list_scratch(registry) == []
