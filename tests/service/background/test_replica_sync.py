"""A replica reports an erasure's epoch only after it has evicted what was forgotten."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace

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


class FakeEngine:
    """The prompts in an engine's memory."""

    def __init__(self) -> None:
        self.prompts: list[UsablePrompt] = []

    def has_in_memory(self, matches: Callable[[UsablePrompt], bool]) -> bool:
        return any(map(matches, self.prompts))

    def evict(self, matches: Callable[[UsablePrompt], bool]) -> int:
        before = len(self.prompts)
        self.prompts = [prompt for prompt in self.prompts if not matches(prompt)]
        return before - len(self.prompts)


class ReplicaHarness:
    """A replica with a fake engine, on a registry with prompts."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.engine = FakeEngine()
        self.in_flight = InFlightRequests()
        self.sync = ReplicaSync(registry.database, self.engine, self.in_flight)  # type: ignore[arg-type]

    def new_prompt(self) -> UsablePrompt:
        with self.registry.database.write_transaction() as session:
            made = make_prompt(session, make_shard(session, make_source(session, make_task(session))))
            return UsablePrompt(made.id, made.source_id, made.shard_id, 1, made.digest, made.size_bytes)

    def forget(self, prompt: UsablePrompt) -> int:
        return forget_source(self.registry, OPERATOR, prompt.source_id).epoch

    def is_registered(self) -> bool:
        return self.sync.is_registered

    def rows(self) -> list[Replica]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Replica)))

    def epoch(self) -> int:
        (row,) = self.rows()
        return row.epoch


def expire_leases(registry: Registry) -> None:
    with registry.database.write_transaction() as session:
        session.execute(update(Replica).values(expires_at=seconds_from_now(-1)))


@pytest.fixture
async def replica(registry: Registry) -> ReplicaHarness:
    replica = ReplicaHarness(registry)
    await replica.sync.poll()
    return replica


async def test_forgotten_prompts_are_evicted_and_others_stay(replica: ReplicaHarness) -> None:
    gone, other = replica.new_prompt(), replica.new_prompt()
    replica.engine.prompts = [gone, other]
    epoch = replica.forget(gone)

    await replica.sync.poll()

    assert replica.engine.prompts == [other]
    assert replica.epoch() >= epoch


async def test_an_epoch_is_not_reported_before_earlier_predictions_have_ended(replica: ReplicaHarness) -> None:
    gone = replica.new_prompt()
    with replica.in_flight.track():
        epoch = replica.forget(gone)
        await replica.sync.poll()
        replica.engine.prompts = [gone]  # the prediction loads it again
        await replica.sync.poll()

        assert replica.engine.prompts == []
        assert replica.epoch() < epoch
        replica.engine.prompts = [gone]

    await replica.sync.poll()

    assert replica.engine.prompts == []
    assert replica.epoch() >= epoch


async def test_a_later_prediction_delays_no_report(replica: ReplicaHarness) -> None:
    gone = replica.new_prompt()
    epoch = replica.forget(gone)
    await replica.sync.poll()
    with replica.in_flight.track():
        await replica.sync.poll()

        assert replica.epoch() >= epoch


async def test_a_replica_whose_lease_expired_evicts_everything_and_registers_again(replica: ReplicaHarness) -> None:
    (before,) = replica.rows()
    replica.engine.prompts = [replica.new_prompt()]
    expire_leases(replica.registry)
    replica.forget(replica.new_prompt())  # so that there is an epoch to report

    await replica.sync.poll()
    assert not replica.is_registered()
    assert replica.engine.prompts == []
    with pytest.raises(NotReady):
        replica.sync.require_registered()
    await replica.sync.poll()

    assert replica.is_registered()
    assert [row.id for row in replica.rows()] != [before.id]


async def test_a_replica_does_not_register_again_while_predictions_are_in_progress(
    replica: ReplicaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 0.0)
    expire_leases(replica.registry)
    with replica.in_flight.track():
        await replica.sync.poll()
        await replica.sync.poll()
        assert not replica.is_registered()

    await replica.sync.poll()

    assert replica.is_registered()


async def test_a_replica_that_cannot_renew_its_lease_evicts_everything(
    replica: ReplicaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica.engine.prompts = [replica.new_prompt()]

    def unreachable(self: Database) -> object:
        raise DatabaseUnreachable("unreachable")

    monkeypatch.setattr(Database, "read_transaction", unreachable)
    await replica.sync.poll()
    assert replica.engine.prompts != []  # its lease has not expired

    monkeypatch.setattr("service.background.replica_sync.LEASE_SECONDS", 0.0)
    await replica.sync.poll()

    assert replica.engine.prompts == []
    assert not replica.is_registered()


async def test_a_poll_ends_before_the_lease_expires(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = ReplicaHarness(registry)
    now, timeouts = 1000.0, []
    clock = SimpleNamespace(monotonic=lambda: now)
    fail_after = anyio.fail_after

    def record(seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        timeouts.append(seconds)
        return fail_after(60)

    monkeypatch.setattr("service.background.replica_sync.time", clock)
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 100.0)
    monkeypatch.setattr(anyio, "fail_after", record)

    await replica.sync.poll()
    for passed in (0.0, LEASE_SECONDS - 3, LEASE_SECONDS - 1):
        now = 1000.0 + passed
        await replica.sync.poll()

    assert timeouts == [LEASE_SECONDS / 2, LEASE_SECONDS / 2, 3, 1]


async def test_a_replica_that_leaves_is_unregistered(replica: ReplicaHarness) -> None:
    replica.engine.prompts = [replica.new_prompt()]

    await replica.sync.leave()

    assert replica.engine.prompts == []
    assert replica.rows() == []


async def test_concurrent_polls_register_once(registry: Registry) -> None:
    replica = ReplicaHarness(registry)

    await asyncio.gather(*(replica.sync.poll() for _ in range(5)))

    assert len(replica.rows()) == 1


def test_a_mark_waits_only_for_earlier_predictions() -> None:
    in_flight = InFlightRequests()
    with in_flight.track():
        mark = in_flight.mark()
        assert not in_flight.have_finished(mark)
    with in_flight.track():
        assert in_flight.have_finished(mark)
