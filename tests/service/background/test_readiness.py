"""Whether a replica is ready: it says what is missing, and keeps nobody who asks."""

import asyncio
import threading

import pytest

from registry.errors import DatabaseUnreachable
from registry.registry import Registry
from service.background.readiness import Readiness
from service.errors import NotReady
from tests.service.engine.fixtures import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> str:
    return "sqlite-folder"


class Part:
    """A keeper and an engine, as far as readiness asks them."""

    is_registered = True
    is_healthy = True


class Scene:
    """A replica whose store can be held or lost."""

    def __init__(self, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
        self.part = Part()
        self.looks = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.fault: Exception | None = None
        self._check = registry.objects.check
        monkeypatch.setattr(registry.objects, "check", self.check)
        self.readiness = Readiness(registry, self.part, self.part)  # type: ignore[arg-type]

    def check(self) -> None:
        self.looks += 1
        assert self.may_answer.wait(30), "nobody let it answer"
        if self.fault is not None:
            raise self.fault
        self._check()


@pytest.fixture
def scene(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(registry, monkeypatch)


async def test_a_device_that_does_not_compute_is_missed(scene: Scene) -> None:
    await scene.readiness.require()
    scene.part.is_healthy = False

    with pytest.raises(NotReady, match="device"):
        await scene.readiness.require()


async def test_many_who_ask_share_one_look(scene: Scene) -> None:
    scene.may_answer.clear()
    asked = [asyncio.create_task(scene.readiness.require()) for _ in range(5)]
    await until(lambda: scene.looks > 0)
    asked[0].cancel()
    scene.may_answer.set()

    await asyncio.gather(*asked[1:])

    assert scene.looks == 1


@pytest.mark.parametrize("is_lost", [False, True])
async def test_who_asks_while_somebody_looks_again_hears_what_was_found_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    monkeypatch.setattr("service.background.readiness.OBJECTS_TTL_SECONDS", 0.0)
    if is_lost:
        scene.fault = DatabaseUnreachable("away")
    readiness = Readiness(scene.readiness._registry, scene.part, scene.part)  # type: ignore[arg-type]
    await outcome(readiness)
    scene.may_answer.clear()
    looking = asyncio.create_task(outcome(readiness))
    await until(lambda: scene.looks == 2)

    found = [await outcome(readiness) for _ in range(3)]

    assert found == [not is_lost] * 3
    assert scene.looks == 2
    scene.may_answer.set()
    assert await looking is not is_lost


async def outcome(readiness: Readiness) -> bool:
    try:
        await readiness.require()
    except NotReady:
        return False
    return True
