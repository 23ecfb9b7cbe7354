"""A worker that works in vain, or is told to stop, stops at once and leaves nothing behind."""

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
from tests.trainer.worker.conftest import on_sqlite
from tests.trainer.worker.fixtures import (
    ENDLESS,
    RECIPE,
    add_source,
    add_task,
    bytes_of,
    files_in_scratch,
    is_training,
    let_leases_run_out,
    pictures_in_scratch,
    prompts_of,
    running,
    samples_in,
    set_recipe,
    shards_of,
    train_directly,
    wait_for,
    worker_on,
)
from trainer.worker.worker import JobCounts


def is_complete(registry: Registry, erasure: UUID) -> bool:
    with registry.database.read_transaction() as session:
        return session.get_one(Erasure, erasure).completed_at is not None


def states_are_mapped(registry: Registry) -> bool:
    """Whether this process still has a state cache in the scratch folder, which has no name there."""
    return str(registry.scratch.folder) in Path("/proc/self/maps").read_text()


def test_forgetting_the_source_stops_its_training_and_is_completed(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        assert states_are_mapped(registry)
        assert pictures_in_scratch(registry)

        erasure = forget_source(registry, OPERATOR, source)

        wait_for(lambda: is_complete(registry, erasure.id), "the erasure")
        assert pictures_in_scratch(registry) == []
        assert not states_are_mapped(registry)
        tally = run.end()
    assert tally == JobCounts(published=0, failed=0, lost=1)
    assert list(registry.objects.list_all(source_prefix(source))) == []


@on_sqlite
def test_no_state_of_a_picture_is_left_when_the_holding_is_let_go(
    registry: Registry, backbone: Backbone, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    mapped: list[bool] = []
    let_go = write_claims.release_claim

    def look_and_let_go(session: Session, claim: UUID) -> None:
        mapped.append(states_are_mapped(registry))
        let_go(session, claim)

    monkeypatch.setattr(write_claims, "let_go", look_and_let_go)
    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        assert states_are_mapped(registry)
        run.end()

    assert mapped == [False]


def test_forgetting_a_sample_while_it_is_learnt_trains_the_shard_without_it(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    task = add_task(registry, ENDLESS)
    source = add_source(registry, task, pictures)
    [shard] = shards_of(registry, source)
    forgotten, *others = samples_in(pictures)
    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        set_recipe(registry, task, RECIPE)

        erasure = forget_sample(registry, OPERATOR, source, forgotten.digest)

        wait_for(lambda: bool(prompts_of(registry, source)), "the prompt of the others")
        wait_for(lambda: is_complete(registry, erasure.id), "the erasure")
        assert run.end() == JobCounts(published=1, failed=0, lost=1)
    [prompt] = prompts_of(registry, source)
    assert bytes_of(registry, prompt) == train_directly(backbone, others, shard.seed)


def cancel(registry: Registry, source: UUID) -> None:
    with registry.database.write_transaction() as session:
        cancel_training(session, OPERATOR, source)


@on_sqlite
def test_cancelled_training_stops_and_is_not_taken_up_again(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")

        cancel(registry, source)

        wait_for(lambda: not pictures_in_scratch(registry), "the end of the training")
        assert run.end() == JobCounts(published=0, failed=0, lost=1)
    [shard] = shards_of(registry, source)
    assert (shard.is_paused, shard.lease_id, shard.error) == (True, None, None)


@on_sqlite
def test_a_worker_whose_lease_ran_out_stops(registry: Registry, backbone: Backbone, pictures: Path) -> None:
    task = add_task(registry, ENDLESS)
    source = add_source(registry, task, pictures)
    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: is_training(registry, source), "the training")
        set_recipe(registry, task, RECIPE)

        let_leases_run_out(registry)

        wait_for(lambda: shards_of(registry, source)[0].not_before is not None, "the end of the training")
        assert run.end().lost == 1


@on_sqlite
@pytest.mark.parametrize("is_stopped", [is_training, lambda *_: True], ids=["in its midst", "at once"])
def test_a_worker_that_is_told_to_stop_gives_the_shard_back(
    registry: Registry, backbone: Backbone, pictures: Path, is_stopped: Callable[[Registry, UUID], bool]
) -> None:
    source = add_source(registry, add_task(registry, ENDLESS), pictures)
    with running(worker_on(registry, backbone)) as run:
        wait_for(lambda: is_stopped(registry, source), "the training")

        tally = run.end()

    assert tally == JobCounts(published=0, failed=0, lost=0)
    [shard] = shards_of(registry, source)
    assert (shard.lease_id, shard.attempts, shard.error, shard.not_before) == (None, 0, None, None)
    assert files_in_scratch(registry) == []
