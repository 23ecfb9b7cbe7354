"""Users who manage a source can cancel and resume its training."""

from collections.abc import Callable
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR, Caller
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Shard
from registry.db.models.log import LogEntry
from registry.errors import LeaseLost
from registry.registry import Registry
from registry.training.control import cancel_training, resume_training
from registry.training.lease import renew_lease
from registry.training.queue import lease_next_shard
from tests.registry.factories import make_prompt, make_shard, make_source, make_task
from tests.registry.training.fixtures import REFUSALS, add_shard, add_source, lease_one, read_shard, user_with_right


def run(act: Callable[[Session, Caller, UUID], int], registry: Registry, shard: Shard) -> int:
    with registry.database.write_transaction() as session:
        return act(session, OPERATOR, shard.source_id)


def test_cancelled_shards_are_not_leased_and_their_leases_end(registry: Registry) -> None:
    shard = add_shard(registry.database)
    lease = lease_one(registry)

    assert run(cancel_training, registry, shard) == 1

    with pytest.raises(LeaseLost):
        renew_lease(registry.database, lease, progress=0.5)
    assert lease_next_shard(registry, "bob") is None
    cancelled = read_shard(registry.database, shard.id)
    assert (cancelled.is_paused, cancelled.lease_id, cancelled.worker, cancelled.progress) == (True, None, None, None)


def test_cancelling_touches_no_other_source_and_nothing_that_is_trained(registry: Registry) -> None:
    other = add_shard(registry.database)
    with registry.database.write_transaction() as session:
        source = make_source(session, make_task(session))
        trained, untrained = make_shard(session, source, samples=1), make_shard(session, source, samples=1)
        make_prompt(session, trained)

    assert run(cancel_training, registry, untrained) == 1

    paused = {shard.id: read_shard(registry.database, shard.id).is_paused for shard in (other, trained, untrained)}
    assert paused == {other.id: False, trained.id: False, untrained.id: True}


def test_resumed_shards_are_due_at_once_whatever_failed_before(registry: Registry) -> None:
    shard = add_shard(registry.database, attempts=9, not_before=seconds_from_now(600))
    run(cancel_training, registry, shard)

    assert run(resume_training, registry, shard) == 1

    assert lease_one(registry).shard_id == shard.id
    assert read_shard(registry.database, shard.id).attempts == 1


def test_cancel_and_resume_are_logged_by_ids_and_counts(registry: Registry) -> None:
    shard = add_shard(registry.database)

    run(cancel_training, registry, shard)
    run(resume_training, registry, shard)

    with registry.database.read_transaction() as session:
        lines = session.scalars(select(LogEntry).order_by(LogEntry.number)).all()
    subject = {"source": str(shard.source_id), "shards": 1}
    assert [(line.action, line.subject) for line in lines] == [
        ("training.cancelled", subject),
        ("training.resumed", subject),
    ]


def test_only_who_manages_a_source_may_stop_its_training(registry: Registry) -> None:
    source = add_source(registry.database)
    shard = add_shard(registry.database, source)
    acts = (cancel_training, resume_training)

    for right, refusal in REFUSALS.items():
        caller = user_with_right(registry, source, right)
        for act in acts:
            with pytest.raises(refusal), registry.database.write_transaction() as session:
                act(session, caller, source.id)
    assert read_shard(registry.database, shard.id).is_paused is False

    caller = user_with_right(registry, source, "manage")
    for act in acts:
        with registry.database.write_transaction() as session:
            assert act(session, caller, source.id) == 1
