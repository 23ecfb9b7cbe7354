"""With a real engine, a replica does not report an eviction while a pass or a read still has the prompt."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import select, update

from registry.access.caller import OPERATOR
from registry.access.usable_prompts import UsablePrompt
from registry.db.clock import seconds_from_now
from registry.db.models.erasures import Replica
from registry.erasure.request import forget_source
from registry.registry import Registry
from service.background.replica_sync import InFlightRequests, ReplicaSync
from service.engine.backbone_cache import BackboneCache
from service.engine.engine import Engine
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_backbone, small_prompt
from tests.registry.factories import make_prompt, make_shard, make_source, make_task
from tests.service.engine.fixtures import EngineHarness, PausePoint, picture, until

pytestmark = pytest.mark.anyio


class ReplicaWithEngine:
    """A registered replica with a prompt of one source, and a prediction with it that can be abandoned."""

    def __init__(self, registry: Registry, harness: EngineHarness, engine: Engine) -> None:
        self.registry = registry
        self.harness = harness
        self.engine = engine
        self.in_flight = InFlightRequests()
        self.sync = ReplicaSync(registry.database, engine, self.in_flight)
        with registry.database.write_transaction() as session:
            made = make_prompt(session, make_shard(session, make_source(session, make_task(session))))
            stored = harness.add(small_prompt(harness.backbone))
            self.prompt = stored._replace(source_id=made.source_id, shard_id=made.shard_id)

    async def predict(self) -> None:
        with self.in_flight.track():
            await self.harness.predict(self.engine, [picture(0)], [self.prompt])

    async def abandon_prediction(self, reached: Awaitable[None]) -> None:
        """Begin a prediction, and cancel it as soon as it has reached a point."""
        predicting = asyncio.create_task(self.predict())
        await reached
        predicting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await predicting

    async def abandon_at(self, point: PausePoint) -> None:
        """Begin a prediction, pause it at a point, and cancel it there."""
        point.pause()
        await self.abandon_prediction(point.wait_until_reached())

    async def report_after_forgetting(self) -> tuple[int, int]:
        """Forget the source, poll twice, and return the epoch of the erasure and the reported one."""
        epoch = forget_source(self.registry, OPERATOR, self.prompt.source_id).epoch
        await self.sync.poll()
        await self.sync.poll()
        return epoch, self.epochs()[0]

    async def report_after_eviction(self) -> int:
        """Wait until the prompt has left the memory, poll, and return the reported epoch."""
        await until(lambda: not self.has_prompt())
        await self.sync.poll()
        return self.epochs()[0]

    def has_prompt(self) -> bool:
        return self.engine.has_in_memory(self._is_its_source)

    def _is_its_source(self, prompt: UsablePrompt) -> bool:
        return prompt.source_id == self.prompt.source_id

    def epochs(self) -> list[int]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Replica.epoch)))


@pytest.fixture
async def replica(registry: Registry, harness: EngineHarness) -> AsyncIterator[ReplicaWithEngine]:
    async with run_replica(registry, harness, harness.new_engine()) as replica:
        yield replica


@asynccontextmanager
async def run_replica(registry: Registry, harness: EngineHarness, engine: Engine) -> AsyncIterator[ReplicaWithEngine]:
    async with engine:
        replica = ReplicaWithEngine(registry, harness, engine)
        await replica.sync.poll()
        yield replica
        harness.resume_all()


@pytest.mark.parametrize("point", ["forward_pause", "read_pause"])
async def test_an_abandoned_pass_or_read_delays_the_report(replica: ReplicaWithEngine, point: str) -> None:
    pause: PausePoint = getattr(replica.harness, point)
    await replica.abandon_at(pause)

    epoch, reported = await replica.report_after_forgetting()

    assert replica.has_prompt()
    assert reported < epoch
    pause.resume()
    assert await replica.report_after_eviction() >= epoch


async def test_an_abandoned_picture_in_the_queue_delays_the_report(replica: ReplicaWithEngine) -> None:
    harness, engine = replica.harness, replica.engine
    other = harness.add(small_prompt(harness.backbone, seed=5))
    harness.forward_pause.pause()
    running = asyncio.create_task(harness.predict(engine, [picture(1)], [other]))
    await harness.forward_pause.wait_until_reached()
    await replica.abandon_prediction(until(lambda: engine.stats().ready_pictures == 1))

    epoch, reported = await replica.report_after_forgetting()

    assert reported < epoch
    harness.forward_pause.resume()
    await running
    assert await replica.report_after_eviction() >= epoch


async def test_a_cached_prompt_is_evicted_at_once(replica: ReplicaWithEngine) -> None:
    await replica.predict()
    assert replica.has_prompt()

    epoch, reported = await replica.report_after_forgetting()

    assert not replica.has_prompt()
    assert reported >= epoch


async def test_a_replica_does_not_register_again_before_its_last_pass_has_ended(
    registry: Registry, replica: ReplicaWithEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 0.0)
    await replica.abandon_at(replica.harness.forward_pause)
    with registry.database.write_transaction() as session:
        session.execute(update(Replica).values(expires_at=seconds_from_now(-1)))

    await replica.sync.poll()
    await replica.sync.poll()
    assert not replica.sync.is_registered

    replica.harness.forward_pause.resume()
    await replica.report_after_eviction()
    assert replica.sync.is_registered


async def test_a_replica_that_leaves_during_a_pass_stays_registered_until_its_lease_expires(
    replica: ReplicaWithEngine,
) -> None:
    await replica.abandon_at(replica.harness.forward_pause)

    await replica.sync.leave()

    assert len(replica.epochs()) == 1


async def test_the_prompts_of_an_evicted_backbone_that_is_still_in_use_count(
    registry: Registry, harness: EngineHarness
) -> None:
    settings = EngineSettings(backbones=1, decode_threads=1)
    backbones = {harness.task.backbone: harness.backbone, "another": small_backbone()}
    engine = Engine(BackboneCache(settings, lambda name, *_: backbones[name]), harness.read, settings)
    async with run_replica(registry, harness, engine) as replica:
        following: list[asyncio.Task[object]] = []

        async def displace_backbone() -> None:
            await harness.forward_pause.wait_until_reached()
            harness.task = dataclasses.replace(harness.task, backbone="another")
            other = harness.add(small_prompt(harness.backbone, seed=5))
            following.append(asyncio.create_task(harness.predict(engine, [picture(1)], [other])))
            await until(lambda: engine.stats().ready_pictures == 1)

        harness.forward_pause.pause()
        await replica.abandon_prediction(displace_backbone())

        epoch, reported = await replica.report_after_forgetting()

        assert reported < epoch
        harness.forward_pause.resume()
        await following[0]
        assert await replica.report_after_eviction() >= epoch
