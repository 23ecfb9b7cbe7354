"""The door lets so many through at once, whoever goes away meanwhile, and in whichever way."""

import asyncio
import threading
from threading import Event
from uuid import UUID

import anyio
import pytest

from registry.errors import DatabaseUnreachable
from service.concurrency import ThreadPool, UserLimiter, look
from service.errors import Busy

pytestmark = pytest.mark.anyio

THREADS = 2


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Work:
    """Work that lasts until it may end, and counts how much of it there is."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.begun = self.ended = 0

    def __call__(self) -> str:
        self.begun += 1
        assert self.may_end.wait(30), "nobody let it end"
        self.ended += 1
        return "done"


async def until_begun(work: Work, count: int) -> None:
    async with asyncio.timeout(30):
        while work.begun < count:
            await asyncio.sleep(0)


async def spin() -> None:
    """Lets everyone else, other threads too, do what they can do now."""
    for _ in range(50):
        await asyncio.to_thread(lambda: None)


async def test_tasks_that_are_cancelled_make_no_more_threads_work_than_there_may_be() -> None:
    pool, work = ThreadPool(THREADS), Work()
    for count in range(1, THREADS + 1):
        leaving = asyncio.create_task(pool.run(work))
        await until_begun(work, count)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

    following = [asyncio.create_task(pool.run(work)) for _ in range(3)]
    await spin()

    assert work.begun == THREADS
    work.may_end.set()
    assert await asyncio.gather(*following) == ["done"] * 3
    async with asyncio.timeout(10):  # nobody waits for those that were left behind: they may be the last to end
        while work.ended < THREADS + 3:
            await asyncio.sleep(0.001)


async def test_who_is_cancelled_in_the_line_is_not_begun_and_keeps_nobody() -> None:
    pool, work = ThreadPool(1), Work()
    first, second, third = (asyncio.create_task(pool.run(work)) for _ in range(3))
    await until_begun(work, 1)
    await spin()

    second.cancel()
    work.may_end.set()

    assert [await first, await third] == ["done", "done"]
    assert work.begun == 2


async def test_a_scope_that_is_cancelled_waits_for_the_work() -> None:
    pool, work = ThreadPool(1), Work()
    ended_before: list[int] = []

    async def go() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await pool.run(work)
        ended_before.append(work.ended)

    scopes: list[anyio.CancelScope] = []
    going = asyncio.create_task(go())
    await until_begun(work, 1)
    scopes[0].cancel()
    await spin()
    assert not going.done()

    work.may_end.set()
    await going

    assert ended_before == [1]


async def test_what_is_left_behind_keeps_its_thread() -> None:
    pool, work = ThreadPool(1), Work()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: pool.run(work, abandon_on_cancel=True))
            await until_begun(work, 1)
            scope.cancel()

    following = asyncio.create_task(pool.run(work))
    await spin()

    assert work.begun == 1
    work.may_end.set()
    assert await following == "done"


async def test_an_error_of_the_work_comes_through() -> None:
    pool = ThreadPool(1)

    def fail() -> None:
        raise KeyError("x")

    for _ in range(2):
        with pytest.raises(KeyError):
            await pool.run(fail)


async def test_a_look_that_takes_too_long_is_given_up() -> None:
    pool, work = ThreadPool(1), Work()

    with pytest.raises(DatabaseUnreachable):
        await look(pool, work, seconds=0.01)

    work.may_end.set()
    assert await look(pool, lambda: 3, seconds=30) == 3


USERS = [UUID(int=number) for number in range(6)]


def test_of_those_who_come_at_once_as_many_are_let_in_as_there_are_places() -> None:
    async def main() -> list[object]:
        places, pool, may_end = UserLimiter(2), ThreadPool(2), Event()

        async def upload(user: UUID) -> str:
            with places.acquire(user, "full"):
                await pool.run(may_end.wait)
            return "done"

        burst = [asyncio.ensure_future(upload(user)) for user in USERS]
        while sum(one.done() for one in burst) < 4:  # those who are refused are told at once, not when others end
            await asyncio.sleep(0)
        may_end.set()
        return await asyncio.gather(*burst, return_exceptions=True)

    ended = asyncio.run(main())

    assert [isinstance(one, Busy) for one in ended] == [False, False, True, True, True, True]


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)])
def test_nobody_has_more_than_half(count: int, most: int) -> None:
    places = UserLimiter(count)
    held = [places.acquire(USERS[0], "full") for _ in range(most)]
    for one in held:
        one.__enter__()

    with pytest.raises(Busy, match="full"), places.acquire(USERS[0], "full"):
        pass
    if count > most:
        with places.acquire(USERS[1], "full"):
            pass
    for one in held:
        one.__exit__(None, None, None)
    with places.acquire(USERS[0], "full"):
        pass


def test_a_place_is_free_again_when_its_taker_fails() -> None:
    places = UserLimiter(1)

    with pytest.raises(KeyError), places.acquire(USERS[0], "full"):
        raise KeyError

    with places.acquire(USERS[1], "full"):
        pass
