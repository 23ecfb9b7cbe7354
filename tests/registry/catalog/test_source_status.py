"""The status of a source: its samples, the state of each shard, and who sees what."""

import pytest
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR, Caller
from registry.catalog.source_status import read_source_status
from registry.db.clock import seconds_from_now
from registry.db.models.catalog import Shard, Source
from registry.errors import NotFound
from registry.ids import new_id
from tests.registry.database_fixtures import sqlite_only
from tests.registry.factories import make_grant, make_prompt, make_shard, make_source, make_task, make_user


def make_owned(session: Session) -> tuple[Source, Caller]:
    owner = make_user(session, role="owner")
    return make_source(session, make_task(session), owner), Caller(owner.id, "owner")


def leased(shard: Shard, seconds: float) -> None:
    shard.lease_id, shard.worker, shard.progress = new_id(), "host:1", 0.5
    shard.expires_at = seconds_from_now(seconds)


def test_each_shard_has_its_state(session: Session) -> None:
    source, owner = make_owned(session)
    waiting, training, late, failed, paused, trained, leaving = (
        make_shard(session, source, samples=n) for n in range(1, 8)
    )
    remote = make_shard(session, source, is_remote=True)
    leased(training, 60)
    leased(late, -60)
    failed.attempts, failed.error = 3, "out of memory"
    failed.not_before = seconds_from_now(60)
    paused.is_paused = True
    leaving.erasure_id = new_id()
    make_prompt(session, trained)
    make_prompt(session, remote).labels = ["owl"]
    session.flush()

    state = read_source_status(session, owner, source.id)

    shown = [(s.id, s.number, s.samples, s.state, s.progress, s.worker, s.error) for s in state.shards]
    assert shown == [
        (waiting.id, 0, 1, "waiting", 0.0, None, None),
        (training.id, 1, 2, "training", 0.5, "host:1", None),
        (late.id, 2, 3, "waiting", 0.0, None, None),
        (failed.id, 3, 4, "backing off", 0.0, None, "out of memory"),
        (paused.id, 4, 5, "paused", 0.0, None, None),
        (trained.id, 5, 6, "trained", 1.0, None, None),
        (remote.id, 7, 0, "remote", 1.0, None, None),
    ]
    assert state.progress == pytest.approx(2.5 / 7)
    assert state.samples == 21
    assert state.size_bytes == sum(shard.size_bytes for shard in state.shards) > 0
    assert state.labels == ("cat", "owl")
    assert state.rights == {"use", "manage", "forget"}


@sqlite_only
def test_an_empty_source_and_a_prompt_of_an_earlier_generation_are_no_progress(session: Session) -> None:
    source, owner = make_owned(session)
    empty = read_source_status(session, owner, source.id)
    assert (empty.progress, empty.samples, empty.labels, empty.shards) == (0.0, 0, (), ())
    shard = make_shard(session, source, samples=1)
    make_prompt(session, shard)
    shard.generation = 2
    session.flush()

    state = read_source_status(session, owner, source.id)

    assert (state.shards[0].state, state.progress) == ("waiting", 0.0)


@sqlite_only
def test_the_right_to_use_shows_no_workers_and_errors(session: Session) -> None:
    source, _ = make_owned(session)
    shard = make_shard(session, source, samples=1)
    leased(shard, 60)
    shard.error = "host:1 ran out of memory"
    user = make_user(session)
    make_grant(session, user.id, source.id, "use")

    (shown,) = read_source_status(session, Caller(user.id, "predictor"), source.id).shards

    assert (shown.state, shown.worker, shown.error) == ("training", None, None)


@sqlite_only
def test_a_source_that_is_hidden_or_being_forgotten_is_not_shown(session: Session) -> None:
    source, owner = make_owned(session)

    with pytest.raises(NotFound):
        read_source_status(session, Caller(new_id(), "predictor"), source.id)
    source.name, source.erasure_id = None, new_id()
    session.flush()
    for caller in (owner, OPERATOR):
        with pytest.raises(NotFound):
            read_source_status(session, caller, source.id)
