"""A thread pool never runs more work than it has threads, however its callers are cancelled."""

import asyncio
import threading
from uuid import UUID

import anyio
import pytest

from registry.errors import DatabaseUnreachable
from service.concurrency import ThreadPool, UploadPool
from service.errors import Busy
from tests.service.engine.fixtures import until

pytestmark = pytest.mark.anyio

THREADS = 2
USERS = [UUID(int=number) for number in range(6)]


class BlockingWork:
    """Work that lasts until it may end, and counts how often it began and ended."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.begun = self.ended = 0

    def __call__(self) -> str:
        self.begun += 1
        assert self.may_end.wait(30), "the test did not let the work end"
        self.ended += 1
        return "done"


async def run_everything_else() -> None:
    """Let all other tasks and threads do what they can do now."""
    for _ in range(50):
        await asyncio.to_thread(lambda: None)


async def test_cancelled_tasks_do_not_free_their_threads() -> None:
    pool, work = ThreadPool(THREADS), BlockingWork()
    cancelled = [asyncio.create_task(pool.run(work)) for _ in range(THREADS)]
    await until(lambda: work.begun == THREADS)
    for task in cancelled:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    following = [asyncio.create_task(pool.run(work)) for _ in range(3)]
    await run_everything_else()

    assert work.begun == THREADS
    work.may_end.set()
    assert await asyncio.gather(*following) == ["done"] * 3
    await until(lambda: work.ended == THREADS + 3)  # the abandoned ones may be the last to end


@pytest.mark.parametrize("abandon", [False, True])
async def test_work_that_is_cancelled_in_the_queue_is_never_begun(abandon: bool) -> None:
    pool, work = ThreadPool(1), BlockingWork()
    first, second, third = (asyncio.create_task(pool.run(work, abandon_on_cancel=abandon)) for _ in range(3))
    await until(lambda: work.begun >= 1)
    await run_everything_else()

    second.cancel()
    await run_everything_else()
    work.may_end.set()

    assert [await first, await third] == ["done", "done"]
    assert work.begun == 2


async def test_a_cancelled_scope_waits_for_the_work() -> None:
    pool, work = ThreadPool(1), BlockingWork()
    ended_before: list[int] = []

    async def run_in_scope() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await pool.run(work)
        ended_before.append(work.ended)

    scopes: list[anyio.CancelScope] = []
    running = asyncio.create_task(run_in_scope())
    await until(lambda: work.begun >= 1)
    scopes[0].cancel()
    await run_everything_else()
    assert not running.done()

    work.may_end.set()
    await running

    assert ended_before == [1]


async def test_abandoned_work_keeps_its_thread() -> None:
    pool, work = ThreadPool(1), BlockingWork()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: pool.run(work, abandon_on_cancel=True))
            await until(lambda: work.begun >= 1)
            scope.cancel()

    following = asyncio.create_task(pool.run(work))
    await run_everything_else()

    assert work.begun == 1
    work.may_end.set()
    assert await following == "done"


@pytest.mark.parametrize("error", [KeyError, TimeoutError])  # a timeout of the work is not one of the database
@pytest.mark.parametrize("timeout_s", [None, 30.0])
async def test_an_error_of_the_work_is_raised(error: type[Exception], timeout_s: float | None) -> None:
    def fail() -> None:
        raise error("x")

    with pytest.raises(error, match="x"):
        await ThreadPool(1).run(fail, timeout_s=timeout_s)


async def test_work_is_abandoned_after_its_timeout() -> None:
    pool, work = ThreadPool(1), BlockingWork()

    with pytest.raises(DatabaseUnreachable):
        await pool.run(work, timeout_s=0.01)

    work.may_end.set()
    assert await pool.run(lambda: 3, timeout_s=30) == 3


async def test_an_upload_pool_refuses_at_once_what_exceeds_its_threads() -> None:
    pool, work = UploadPool(2), BlockingWork()

    burst = [asyncio.ensure_future(pool.run(user, work)) for user in USERS]
    await until(lambda: sum(one.done() for one in burst) == 4)  # refusals do not wait for running uploads
    work.may_end.set()
    results = await asyncio.gather(*burst, return_exceptions=True)

    assert [isinstance(one, Busy) for one in results] == [False, False, True, True, True, True]


@pytest.mark.parametrize(("threads", "per_user"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)])
async def test_one_user_has_at_most_half_of_the_upload_threads(threads: int, per_user: int) -> None:
    pool, work = UploadPool(threads), BlockingWork()
    running = [asyncio.ensure_future(pool.run(USERS[0], work)) for _ in range(per_user)]
    await until(lambda: work.begun >= per_user)

    with pytest.raises(Busy, match="too many uploads"):
        await pool.run(USERS[0], work)
    if threads > per_user:
        assert await pool.run(USERS[1], lambda: 3) == 3
    work.may_end.set()
    await asyncio.gather(*running)
    assert await pool.run(USERS[0], work) == "done"


async def test_an_upload_that_fails_frees_its_thread() -> None:
    pool = UploadPool(1)

    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await pool.run(USERS[0], fail)

    assert await pool.run(USERS[1], lambda: 3) == 3
