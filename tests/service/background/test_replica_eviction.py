"""A keeper and its engine together: a replica does not say that it has let go of what a pass or a read still holds."""

import asyncio
import dataclasses
from collections.abc import Iterator

import pytest
from sqlalchemy import select, update

from alacarte.prompting.backbone.vit import Backbone
from registry.access.caller import OPERATOR
from registry.access.usable_set import UsablePrompt
from registry.db.clock import after
from registry.db.models.write_claims import Replica
from registry.erasure.request import forget_source
from registry.registry import Registry
from service.background.in_flight import Flights
from service.background.replica_sync import ReplicaKeeper
from service.engine.backbones import Backbones
from service.engine.engine import Engine
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_backbone, small_prompt
from tests.registry.factories import make_prompt, make_shard, make_source, make_task
from tests.service.engine.fixtures import Stage, picture, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> str:
    return "sqlite-folder"


@pytest.fixture
def stage(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(backbone)
    monkeypatch.setattr(backbone, "embed", stage.embed)
    yield stage
    stage.let_all_go()


class Scene:
    """A source in the registry, its prompt in the store, and a question about it that can be walked away from."""

    def __init__(self, registry: Registry, stage: Stage, engine: Engine) -> None:
        self.registry = registry
        self.stage = stage
        self.engine = engine
        self.flights = Flights()
        self.keeper = ReplicaKeeper(registry.database, engine, self.flights)
        with registry.database.writing() as session:
            made = make_prompt(session, make_shard(session, make_source(session, make_task(session))))
            kept = stage.add(small_prompt(stage.backbone))
            self.prompt = kept._replace(source_id=made.source_id, shard_id=made.shard_id)
        self.asking: asyncio.Task[None] | None = None

    async def ask(self) -> None:
        with self.flights.flight():
            await self.stage.ask(self.engine, [picture(0)], [self.prompt])

    def begin(self) -> None:
        self.asking = asyncio.create_task(self.ask())

    async def walk_away(self) -> None:
        assert self.asking is not None
        self.asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.asking

    def forget(self) -> int:
        return forget_source(self.registry, OPERATOR, self.prompt.source_id).epoch

    def is_held(self) -> bool:
        return self.engine.holds(self.is_ours)

    def is_ours(self, prompt: UsablePrompt) -> bool:
        return prompt.source_id == self.prompt.source_id

    def epochs(self) -> list[int]:
        with self.registry.database.reading() as session:
            return list(session.scalars(select(Replica.epoch)))


async def test_a_pass_that_its_client_has_left_is_waited_for(registry: Registry, stage: Stage) -> None:
    async with stage.engine() as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        stage.passes.close()
        scene.begin()
        await stage.passes.reached()
        await scene.walk_away()
        epoch = scene.forget()

        await scene.keeper.poll()
        await scene.keeper.poll()

        assert scene.is_held()
        assert scene.epochs()[0] < epoch
        stage.passes.open()
        await until(lambda: not scene.is_held())
        await scene.keeper.poll()
        assert scene.epochs()[0] >= epoch


async def test_a_read_that_its_client_has_left_is_waited_for(registry: Registry, stage: Stage) -> None:
    async with stage.engine() as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        stage.store.close()
        scene.begin()
        await stage.store.reached()
        await scene.walk_away()
        epoch = scene.forget()

        await scene.keeper.poll()

        assert scene.is_held()
        assert scene.epochs()[0] < epoch
        stage.store.open()
        await until(lambda: not scene.is_held())
        await scene.keeper.poll()
        assert scene.epochs()[0] >= epoch


async def test_what_waits_for_the_device_for_nobody_is_waited_for(registry: Registry, stage: Stage) -> None:
    other = stage.add(small_prompt(stage.backbone, seed=5))
    async with stage.engine() as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        stage.passes.close()
        running = asyncio.create_task(stage.ask(engine, [picture(1)], [other]))
        await stage.passes.reached()
        scene.begin()
        await until(lambda: engine.facts().ready_pictures == 1)
        await scene.walk_away()
        epoch = scene.forget()

        await scene.keeper.poll()

        assert scene.epochs()[0] < epoch
        stage.passes.open()
        await running
        await until(lambda: not scene.is_held())
        await scene.keeper.poll()
        assert scene.epochs()[0] >= epoch


async def test_what_is_in_its_slot_is_let_go_of_at_once(registry: Registry, stage: Stage) -> None:
    async with stage.engine() as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        await scene.ask()
        assert scene.is_held()
        epoch = scene.forget()

        await scene.keeper.poll()

        assert not scene.is_held()
        assert scene.epochs()[0] >= epoch


async def test_a_replica_does_not_begin_anew_before_its_last_pass_has_ended(
    registry: Registry, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.background.replica_sync.RENEW_SECONDS", 0.0)
    async with stage.engine() as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        stage.passes.close()
        scene.begin()
        await stage.passes.reached()
        await scene.walk_away()
        with registry.database.writing() as session:
            session.execute(update(Replica).values(expires_at=after(-1)))

        await scene.keeper.poll()
        await scene.keeper.poll()
        assert not scene.keeper.is_enrolled

        stage.passes.open()
        await until(lambda: not scene.is_held())
        await scene.keeper.poll()
        assert scene.keeper.is_enrolled


async def test_a_replica_that_leaves_while_a_pass_runs_is_waited_for_as_long_as_its_lease(
    registry: Registry, stage: Stage
) -> None:
    async with stage.engine() as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        stage.passes.close()
        scene.begin()
        await stage.passes.reached()
        await scene.walk_away()

        await scene.keeper.leave()

        assert len(scene.epochs()) == 1
        stage.passes.open()


async def test_a_backbone_that_had_to_leave_while_it_was_used_is_asked_too(registry: Registry, stage: Stage) -> None:
    settings = EngineSettings(backbones=1, decode_threads=1)
    backbones = {stage.task.backbone: stage.backbone, "another": small_backbone()}
    async with Engine(Backbones(settings, lambda name, *_: backbones[name]), stage.read, settings) as engine:
        scene = Scene(registry, stage, engine)
        await scene.keeper.poll()
        stage.passes.close()
        scene.begin()
        await stage.passes.reached()
        first = stage.task
        stage.task = dataclasses.replace(first, backbone="another")
        following = asyncio.create_task(
            stage.ask(engine, [picture(1)], [stage.add(small_prompt(stage.backbone, seed=5))])
        )
        await until(lambda: engine.facts().ready_pictures == 1)
        await scene.walk_away()
        epoch = scene.forget()

        await scene.keeper.poll()

        assert scene.epochs()[0] < epoch
        stage.passes.open()
        await following
        await until(lambda: not scene.is_held())
        await scene.keeper.poll()
        assert scene.epochs()[0] >= epoch
