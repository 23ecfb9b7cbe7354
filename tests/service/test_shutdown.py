"""Ending waits for nothing that cannot be interrupted: it is left behind."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import anyio
import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.registry import Registry
from service.background import maintenance
from service.background.in_flight import Flights
from service.background.maintenance import Housekeeping
from service.background.replica_sync import ReplicaKeeper
from service.engine.backbones import Backbones
from service.engine.settings import EngineSettings
from service.observability.metrics import Metrics
from tests.servers.processes import until
from tests.service.engine.fixtures import Gate, Stage


@pytest.fixture
def home() -> str:
    return "sqlite-folder"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Closed, and opened in the end."""
    gate = Gate()
    gate.close()
    yield gate
    gate.open()


@pytest.mark.anyio
async def test_an_erasure_that_takes_long_is_left_behind_and_none_is_begun_after_it(
    registry: Registry, backbone: Backbone, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []

    def erase(registry: Registry, is_over: Callable[[], bool]) -> int:
        looks.append(is_over())
        gate.pass_through()
        looks.append(is_over())
        return 0

    monkeypatch.setattr(maintenance, "run_erasures", erase)
    monkeypatch.setattr(maintenance, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(maintenance, "LEAVE_SECONDS", 0.01)
    keeper = ReplicaKeeper(registry.database, Stage(backbone).new_engine(), Flights())

    async with anyio.create_task_group() as group:
        group.start_soon(Housekeeping(registry, keeper, Metrics()).run)
        await gate.reached()
        group.cancel_scope.cancel()

    assert looks == [False]
    gate.open()
    until(lambda: len(looks) == 2, "the end of the erasure")
    assert looks == [False, True]


def test_a_backbone_that_is_being_built_is_left_behind(backbone: Backbone, gate: Gate) -> None:
    def build(*_: object) -> Backbone:
        gate.pass_through()
        return backbone

    async def begin() -> None:
        building = asyncio.create_task(Backbones(EngineSettings(), build).get(Stage(backbone).task))
        await gate.reached()
        building.cancel()

    process = threading.Thread(target=lambda: asyncio.run(begin()), daemon=True)
    process.start()
    process.join(20)

    assert not process.is_alive()
