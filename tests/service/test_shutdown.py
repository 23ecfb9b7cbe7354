"""A shutdown abandons work that cannot be interrupted."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import anyio
import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.registry import Registry
from service.background import maintenance
from service.background.maintenance import ServiceMaintenance
from service.background.replica_sync import InFlightRequests, ReplicaSync
from service.engine.backbone_cache import BackboneCache
from service.engine.settings import EngineSettings
from service.observability.metrics import Metrics
from tests.servers.processes import wait_until
from tests.service.engine.fixtures import EngineHarness, PausePoint


@pytest.fixture
def pause_point() -> Iterator[PausePoint]:
    """A pause point that is paused during the test."""
    pause_point = PausePoint()
    pause_point.pause()
    yield pause_point
    pause_point.resume()


@pytest.mark.anyio
async def test_a_long_erasure_is_abandoned_and_no_other_is_begun(
    registry: Registry, backbone: Backbone, pause_point: PausePoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping: list[bool] = []

    def erase(registry: Registry, is_stopping: Callable[[], bool]) -> int:
        stopping.append(is_stopping())
        pause_point.wait_if_paused()
        stopping.append(is_stopping())
        return 0

    monkeypatch.setattr(maintenance, "run_erasures", erase)
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(maintenance, "STOP_TIMEOUT_S", 0.01)
    replica_sync = ReplicaSync(registry.database, EngineHarness(backbone).new_engine(), InFlightRequests())

    async with anyio.create_task_group() as group:
        group.start_soon(ServiceMaintenance(registry, replica_sync, Metrics()).run)
        await pause_point.wait_until_reached()
        group.cancel_scope.cancel()

    assert stopping == [False]
    pause_point.resume()
    wait_until(lambda: len(stopping) == 2, "the end of the erasure")
    assert stopping == [False, True]


def test_a_backbone_that_is_being_built_is_abandoned(backbone: Backbone, pause_point: PausePoint) -> None:
    def build(*_: object) -> Backbone:
        pause_point.wait_if_paused()
        return backbone

    async def begin() -> None:
        building = asyncio.create_task(BackboneCache(EngineSettings(), build).get(EngineHarness(backbone).task))
        await pause_point.wait_until_reached()
        building.cancel()

    process = threading.Thread(target=lambda: asyncio.run(begin()), daemon=True)
    process.start()
    process.join(20)

    assert not process.is_alive()
