"""Readiness names every failing check, and answers from a cache while a check is slow."""

import asyncio
import threading

import pytest

from registry.errors import DatabaseUnreachable
from registry.registry import Registry
from service.background.readiness import Readiness, ReadinessCheck
from service.concurrency import ThreadPool
from service.errors import NotReady
from tests.service.engine.fixtures import until

pytestmark = pytest.mark.anyio


class FakeReplica:
    """The parts of a replica and an engine that readiness reads."""

    is_registered = True
    is_healthy = True


class ReadinessHarness:
    """A readiness whose check of the object store can be paused or fail."""

    def __init__(self, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replica = FakeReplica()
        self.checks = 0
        self.may_finish = threading.Event()
        self.may_finish.set()
        self.error: Exception | None = None
        self._check = registry.objects.check
        monkeypatch.setattr(registry.objects, "check", self.check)
        self.readiness = Readiness(registry, self.replica, self.replica)  # type: ignore[arg-type]

    def check(self) -> None:
        self.checks += 1
        assert self.may_finish.wait(30), "the test did not let the check finish"
        if self.error is not None:
            raise self.error
        self._check()


@pytest.fixture
def harness(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> ReadinessHarness:
    return ReadinessHarness(registry, monkeypatch)


async def test_a_device_that_does_not_compute_is_not_ready(harness: ReadinessHarness) -> None:
    await harness.readiness.require()
    harness.replica.is_healthy = False

    with pytest.raises(NotReady, match="device"):
        await harness.readiness.require()


async def test_a_check_that_raises_an_unexpected_error_has_failed() -> None:
    divisors = iter([1, 0])
    check = ReadinessCheck("x", ThreadPool(1), lambda: 1 / next(divisors), ttl_s=-1.0)
    assert await check.is_passing()
    with pytest.raises(ZeroDivisionError):
        await check.is_passing()

    check._ttl_s = 60.0

    assert not await check.is_passing()


async def test_concurrent_requests_share_one_check(harness: ReadinessHarness) -> None:
    harness.may_finish.clear()
    waiting = [asyncio.create_task(harness.readiness.require()) for _ in range(5)]
    await until(lambda: harness.checks > 0)
    waiting[0].cancel()
    harness.may_finish.set()

    await asyncio.gather(*waiting[1:])

    assert harness.checks == 1


@pytest.mark.parametrize("is_failing", [False, True])
async def test_the_last_result_is_served_while_a_check_is_repeated(
    harness: ReadinessHarness, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    monkeypatch.setattr("service.background.readiness.OBJECTS_TTL_SECONDS", 0.0)
    if is_failing:
        harness.error = DatabaseUnreachable("unreachable")
    readiness = Readiness(harness.readiness._registry, harness.replica, harness.replica)  # type: ignore[arg-type]
    await is_ready(readiness)
    harness.may_finish.clear()
    checking = asyncio.create_task(is_ready(readiness))
    await until(lambda: harness.checks == 2)

    results = [await is_ready(readiness) for _ in range(3)]

    assert results == [not is_failing] * 3
    assert harness.checks == 2
    harness.may_finish.set()
    assert await checking is not is_failing


async def is_ready(readiness: Readiness) -> bool:
    try:
        await readiness.require()
    except NotReady:
        return False
    return True
