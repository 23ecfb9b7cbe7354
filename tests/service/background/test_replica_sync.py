"""A replica and SQL in step: what is forgotten leaves memory before it is said to have left."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio
import pytest
from sqlalchemy import select, update

from registry.access.caller import OPERATOR
from registry.access.usable_prompts import UsablePrompt
from registry.db.clock import seconds_from_now
from registry.db.database import Database
from registry.db.models.erasures import Replica
from registry.erasure.request import forget_source
from registry.errors import DatabaseUnreachable
from registry.registry import Registry
from service.background.replica_sync import LEASE_SECONDS, InFlightRequests, ReplicaSync
from service.errors import NotReady
from tests.registry.factories import make_prompt, make_shard, make_source, make_task

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> str:
    return "sqlite-folder"


class Memory:
    """An engine's memory, and nothing else of it."""

    def __init__(self) -> None:
        self.prompts: list[UsablePrompt] = []

    def has_in_memory(self, matches: Callable[[UsablePrompt], bool]) -> bool:
        return any(map(matches, self.prompts))

    def evict(self, matches: Callable[[UsablePrompt], bool]) -> int:
        before = len(self.prompts)
        self.prompts = [prompt for prompt in self.prompts if not matches(prompt)]
        return before - len(self.prompts)


class Stage:
    """A keeper with its memory and flights, on a registry with prompts."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.memory = Memory()
        self.in_flight = InFlightRequests()
        self.replica_sync = ReplicaSync(registry.database, self.memory, self.in_flight)  # type: ignore[arg-type]

    def prompt(self) -> UsablePrompt:
        with self.registry.database.write_transaction() as session:
            shard = make_shard(session, make_source(session, make_task(session)))
            made = make_prompt(session, shard)
            return UsablePrompt(made.id, made.source_id, made.shard_id, 1, made.digest, made.size_bytes)

    def forget(self, prompt: UsablePrompt) -> int:
        return forget_source(self.registry, OPERATOR, prompt.source_id).epoch

    def is_registered(self) -> bool:
        return self.replica_sync.is_registered

    def rows(self) -> list[Replica]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Replica)))

    def epoch(self) -> int:
        (row,) = self.rows()
        return row.epoch


@pytest.fixture
def stage(registry: Registry) -> Stage:
    return Stage(registry)


async def test_what_is_forgotten_leaves_memory_and_the_rest_stays(stage: Stage) -> None:
    gone, kept = stage.prompt(), stage.prompt()
    await stage.replica_sync.poll()
    stage.memory.prompts = [gone, kept]
    epoch = stage.forget(gone)

    await stage.replica_sync.poll()

    assert stage.memory.prompts == [kept]
    assert stage.epoch() >= epoch


async def test_it_is_not_said_before_the_predictions_of_before_have_ended(stage: Stage) -> None:
    gone = stage.prompt()
    await stage.replica_sync.poll()
    with stage.in_flight.track():
        epoch = stage.forget(gone)
        await stage.replica_sync.poll()
        stage.memory.prompts = [gone]  # the prediction brings it back
        await stage.replica_sync.poll()

        assert stage.memory.prompts == []
        assert stage.epoch() < epoch
        stage.memory.prompts = [gone]

    await stage.replica_sync.poll()

    assert stage.memory.prompts == []
    assert stage.epoch() >= epoch


async def test_a_later_prediction_holds_nothing_up(stage: Stage) -> None:
    gone = stage.prompt()
    await stage.replica_sync.poll()
    epoch = stage.forget(gone)
    await stage.replica_sync.poll()
    with stage.in_flight.track():
        await stage.replica_sync.poll()

        assert stage.epoch() >= epoch


async def test_a_replica_that_counted_as_dead_drops_everything_and_begins_anew(stage: Stage) -> None:
    prompt = stage.prompt()
    await stage.replica_sync.poll()
    (before,) = stage.rows()
    stage.memory.prompts = [prompt]
    with stage.registry.database.write_transaction() as session:
        session.execute(update(Replica).values(expires_at=seconds_from_now(-1)))
    stage.forget(stage.prompt())  # so that there is something to report

    await stage.replica_sync.poll()
    assert not stage.is_registered()
    assert stage.memory.prompts == []
    with pytest.raises(NotReady):
        stage.replica_sync.require_registered()
    await stage.replica_sync.poll()

    assert stage.is_registered()
    assert [row.id for row in stage.rows()] != [before.id]


async def test_it_does_not_begin_anew_while_predictions_are_under_way(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 0.0)
    await stage.replica_sync.poll()
    with stage.registry.database.write_transaction() as session:
        session.execute(update(Replica).values(expires_at=seconds_from_now(-1)))
    with stage.in_flight.track():
        await stage.replica_sync.poll()
        await stage.replica_sync.poll()
        assert not stage.is_registered()

    await stage.replica_sync.poll()

    assert stage.is_registered()


async def test_a_replica_that_cannot_renew_in_time_drops_everything(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.replica_sync.poll()
    stage.memory.prompts = [stage.prompt()]

    def away(self: Database) -> object:
        raise DatabaseUnreachable("away")

    monkeypatch.setattr(Database, "read_transaction", away)
    await stage.replica_sync.poll()
    assert stage.memory.prompts != []  # it still counts as alive

    monkeypatch.setattr("service.background.replica_sync.LEASE_SECONDS", 0.0)
    await stage.replica_sync.poll()

    assert stage.memory.prompts == []
    assert not stage.is_registered()


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


async def test_a_look_takes_no_longer_than_the_lease_lasts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, allowed = Clock(), []
    fail_after = anyio.fail_after

    def noted(seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        allowed.append(seconds)
        return fail_after(60)

    monkeypatch.setattr("service.background.replica_sync.time", clock)
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 100.0)
    monkeypatch.setattr(anyio, "fail_after", noted)

    await stage.replica_sync.poll()
    for passed in (0.0, LEASE_SECONDS - 3, LEASE_SECONDS - 1):
        clock.now = 1000.0 + passed
        await stage.replica_sync.poll()

    assert allowed == [LEASE_SECONDS / 2, LEASE_SECONDS / 2, 3, 1]


async def test_a_replica_that_leaves_is_waited_for_by_nobody(stage: Stage) -> None:
    await stage.replica_sync.poll()
    stage.memory.prompts = [stage.prompt()]

    await stage.replica_sync.leave()

    assert stage.memory.prompts == []
    assert stage.rows() == []


async def test_polls_at_the_same_time_take_turns(stage: Stage) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(stage.replica_sync.poll)

    assert len(stage.rows()) == 1


def test_flights_have_landed_when_those_of_before_have() -> None:
    in_flight = InFlightRequests()
    with in_flight.track():
        mark = in_flight.mark()
        assert not in_flight.have_finished(mark)
    with in_flight.track():
        assert in_flight.have_finished(mark)
