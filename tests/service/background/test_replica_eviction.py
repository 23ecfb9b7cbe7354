"""A keeper and its engine together: a replica does not say that it has let go of what a pass or a read still holds."""

import asyncio
import dataclasses
from collections.abc import Iterator

import pytest
from sqlalchemy import select, update

from alacarte.prompting.backbone.vit import Backbone
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
from tests.service.engine.fixtures import EngineHarness, picture, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> str:
    return "sqlite-folder"


@pytest.fixture
def harness(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineHarness]:
    harness = EngineHarness(backbone)
    monkeypatch.setattr(backbone, "embed", harness.embed)
    yield harness
    harness.resume_all()


class Scene:
    """A source in the registry, its prompt in the store, and a question about it that can be walked away from."""

    def __init__(self, registry: Registry, harness: EngineHarness, engine: Engine) -> None:
        self.registry = registry
        self.harness = harness
        self.engine = engine
        self.in_flight = InFlightRequests()
        self.replica_sync = ReplicaSync(registry.database, engine, self.in_flight)
        with registry.database.write_transaction() as session:
            made = make_prompt(session, make_shard(session, make_source(session, make_task(session))))
            kept = harness.add(small_prompt(harness.backbone))
            self.prompt = kept._replace(source_id=made.source_id, shard_id=made.shard_id)
        self.asking: asyncio.Task[None] | None = None

    async def ask(self) -> None:
        with self.in_flight.track():
            await self.harness.predict(self.engine, [picture(0)], [self.prompt])

    def begin(self) -> None:
        self.asking = asyncio.create_task(self.ask())

    async def walk_away(self) -> None:
        assert self.asking is not None
        self.asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.asking

    def forget(self) -> int:
        return forget_source(self.registry, OPERATOR, self.prompt.source_id).epoch

    def is_paused(self) -> bool:
        return self.engine.has_in_memory(self.is_ours)

    def is_ours(self, prompt: UsablePrompt) -> bool:
        return prompt.source_id == self.prompt.source_id

    def epochs(self) -> list[int]:
        with self.registry.database.read_transaction() as session:
            return list(session.scalars(select(Replica.epoch)))


async def test_a_pass_that_its_client_has_left_is_waited_for(registry: Registry, harness: EngineHarness) -> None:
    async with harness.engine() as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        harness.forward_pause.pause()
        scene.begin()
        await harness.forward_pause.wait_until_reached()
        await scene.walk_away()
        epoch = scene.forget()

        await scene.replica_sync.poll()
        await scene.replica_sync.poll()

        assert scene.is_paused()
        assert scene.epochs()[0] < epoch
        harness.forward_pause.resume()
        await until(lambda: not scene.is_paused())
        await scene.replica_sync.poll()
        assert scene.epochs()[0] >= epoch


async def test_a_read_that_its_client_has_left_is_waited_for(registry: Registry, harness: EngineHarness) -> None:
    async with harness.engine() as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        harness.read_pause.pause()
        scene.begin()
        await harness.read_pause.wait_until_reached()
        await scene.walk_away()
        epoch = scene.forget()

        await scene.replica_sync.poll()

        assert scene.is_paused()
        assert scene.epochs()[0] < epoch
        harness.read_pause.resume()
        await until(lambda: not scene.is_paused())
        await scene.replica_sync.poll()
        assert scene.epochs()[0] >= epoch


async def test_what_waits_for_the_device_for_nobody_is_waited_for(registry: Registry, harness: EngineHarness) -> None:
    other = harness.add(small_prompt(harness.backbone, seed=5))
    async with harness.engine() as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        harness.forward_pause.pause()
        running = asyncio.create_task(harness.predict(engine, [picture(1)], [other]))
        await harness.forward_pause.wait_until_reached()
        scene.begin()
        await until(lambda: engine.stats().ready_pictures == 1)
        await scene.walk_away()
        epoch = scene.forget()

        await scene.replica_sync.poll()

        assert scene.epochs()[0] < epoch
        harness.forward_pause.resume()
        await running
        await until(lambda: not scene.is_paused())
        await scene.replica_sync.poll()
        assert scene.epochs()[0] >= epoch


async def test_what_is_in_its_slot_is_let_go_of_at_once(registry: Registry, harness: EngineHarness) -> None:
    async with harness.engine() as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        await scene.ask()
        assert scene.is_paused()
        epoch = scene.forget()

        await scene.replica_sync.poll()

        assert not scene.is_paused()
        assert scene.epochs()[0] >= epoch


async def test_a_replica_does_not_begin_anew_before_its_last_pass_has_ended(
    registry: Registry, harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 0.0)
    async with harness.engine() as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        harness.forward_pause.pause()
        scene.begin()
        await harness.forward_pause.wait_until_reached()
        await scene.walk_away()
        with registry.database.write_transaction() as session:
            session.execute(update(Replica).values(expires_at=seconds_from_now(-1)))

        await scene.replica_sync.poll()
        await scene.replica_sync.poll()
        assert not scene.replica_sync.is_registered

        harness.forward_pause.resume()
        await until(lambda: not scene.is_paused())
        await scene.replica_sync.poll()
        assert scene.replica_sync.is_registered


async def test_a_replica_that_leaves_while_a_pass_runs_is_waited_for_as_long_as_its_lease(
    registry: Registry, harness: EngineHarness
) -> None:
    async with harness.engine() as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        harness.forward_pause.pause()
        scene.begin()
        await harness.forward_pause.wait_until_reached()
        await scene.walk_away()

        await scene.replica_sync.leave()

        assert len(scene.epochs()) == 1
        harness.forward_pause.resume()


async def test_a_backbone_that_had_to_leave_while_it_was_used_is_asked_too(
    registry: Registry, harness: EngineHarness
) -> None:
    settings = EngineSettings(backbones=1, decode_threads=1)
    backbones = {harness.task.backbone: harness.backbone, "another": small_backbone()}
    async with Engine(BackboneCache(settings, lambda name, *_: backbones[name]), harness.read, settings) as engine:
        scene = Scene(registry, harness, engine)
        await scene.replica_sync.poll()
        harness.forward_pause.pause()
        scene.begin()
        await harness.forward_pause.wait_until_reached()
        first = harness.task
        harness.task = dataclasses.replace(first, backbone="another")
        following = asyncio.create_task(
            harness.predict(engine, [picture(1)], [harness.add(small_prompt(harness.backbone, seed=5))])
        )
        await until(lambda: engine.stats().ready_pictures == 1)
        await scene.walk_away()
        epoch = scene.forget()

        await scene.replica_sync.poll()

        assert scene.epochs()[0] < epoch
        harness.forward_pause.resume()
        await following
        await until(lambda: not scene.is_paused())
        await scene.replica_sync.poll()
        assert scene.epochs()[0] >= epoch
