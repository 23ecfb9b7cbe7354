"""With a real engine, a replica does not report an eviction while a pass or a read still has the prompt."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable

import pytest
from sqlalchemy import select

from registry.access.caller import OPERATOR
from registry.db.models.erasures import Replica
from registry.erasure.request import forget_source
from registry.registry import Registry
from service.background.replica_sync import InFlightRequests, ReplicaSync
from service.engine.backbone_cache import BackboneCache
from service.engine.engine import Engine
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_backbone, small_prompt
from tests.registry.factories import make_prompt, make_shard, make_source, make_task
from tests.service.background.test_replica_sync import expire_leases
from tests.service.engine.fixtures import EngineHarness, PausePoint, picture, until

pytestmark = pytest.mark.anyio


class ReplicaWithEngine:
    """A replica with a prompt of one source, and a prediction with it that can be abandoned."""

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

    async def abandon_pass(self) -> None:
        """Begin a prediction, and cancel it while its forward pass is paused."""
        self.harness.forward_pause.pause()
        await self.abandon_prediction(self.harness.forward_pause.wait_until_reached())

    def forget(self) -> int:
        return forget_source(self.registry, OPERATOR, self.prompt.source_id).epoch

    def has_prompt(self) -> bool:
        return self.engine.has_in_memory(lambda prompt: prompt.source_id == self.prompt.source_id)

    def epochs(self) -> list[int]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Replica.epoch)))

    async def check_report_follows_eviction(self, epoch: int) -> None:
        """Resume what is paused, and assert that the epoch is reported after the eviction and was not before."""
        for _ in range(2):
            await self.sync.poll()
            assert self.has_prompt()
            assert self.epochs()[0] < epoch
        self.harness.resume_all()
        await until(lambda: not self.has_prompt())
        await self.sync.poll()
        assert self.epochs()[0] >= epoch


@pytest.fixture
async def replica(registry: Registry, harness: EngineHarness) -> AsyncIterator[ReplicaWithEngine]:
    async with harness.engine() as engine:
        replica = ReplicaWithEngine(registry, harness, engine)
        await replica.sync.poll()
        yield replica
        harness.resume_all()


@pytest.mark.parametrize("paused", ["forward_pause", "read_pause"])
async def test_an_abandoned_pass_or_read_delays_the_report(replica: ReplicaWithEngine, paused: str) -> None:
    pause: PausePoint = getattr(replica.harness, paused)
    pause.pause()
    await replica.abandon_prediction(pause.wait_until_reached())

    await replica.check_report_follows_eviction(replica.forget())


async def test_an_abandoned_picture_in_the_queue_delays_the_report(replica: ReplicaWithEngine) -> None:
    harness, engine = replica.harness, replica.engine
    other = harness.add(small_prompt(harness.backbone, seed=5))
    running = await harness.start_paused(engine, [picture(1)], [other])
    await replica.abandon_prediction(until(lambda: engine.stats().ready_pictures == 1))

    await replica.check_report_follows_eviction(replica.forget())
    await running


async def test_a_cached_prompt_is_evicted_at_once(replica: ReplicaWithEngine) -> None:
    await replica.predict()
    assert replica.has_prompt()
    epoch = replica.forget()

    await replica.sync.poll()

    assert not replica.has_prompt()
    assert replica.epochs()[0] >= epoch


async def test_a_replica_does_not_register_again_before_its_last_pass_has_ended(
    replica: ReplicaWithEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 0.0)
    await replica.abandon_pass()
    expire_leases(replica.registry)

    await replica.sync.poll()
    await replica.sync.poll()
    assert not replica.sync.is_registered

    replica.harness.forward_pause.resume()
    await until(lambda: not replica.has_prompt())
    await replica.sync.poll()
    assert replica.sync.is_registered


async def test_a_replica_that_leaves_during_a_pass_stays_registered_until_its_lease_expires(
    replica: ReplicaWithEngine,
) -> None:
    await replica.abandon_pass()

    await replica.sync.leave()

    assert len(replica.epochs()) == 1


async def test_the_prompts_of_an_evicted_backbone_that_is_still_in_use_count(
    registry: Registry, harness: EngineHarness
) -> None:
    settings = EngineSettings(max_backbones=1, decode_threads=1)
    backbones = {harness.task.backbone: harness.backbone, "another": small_backbone()}
    async with Engine(BackboneCache(settings, lambda name, *_: backbones[name]), harness.read, settings) as engine:
        replica = ReplicaWithEngine(registry, harness, engine)
        await replica.sync.poll()
        harness.forward_pause.pause()
        predicting = asyncio.create_task(replica.predict())
        await harness.forward_pause.wait_until_reached()
        harness.task = dataclasses.replace(harness.task, backbone="another")
        following = harness.start(engine, [picture(1)], [harness.add(small_prompt(harness.backbone, seed=5))])
        await until(lambda: engine.stats().ready_pictures == 1)
        predicting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await predicting

        await replica.check_report_follows_eviction(replica.forget())
        await following
