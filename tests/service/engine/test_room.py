"""Bytes are lent to whoever came first, and all of them come back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.room import Room

pytestmark = pytest.mark.anyio


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 2), st.booleans()), max_size=20))
def test_never_more_is_held_than_there_is_and_all_of_it_comes_back(wishes: list[tuple[int, int, bool]]) -> None:
    held: list[int] = []
    order: list[int] = []

    async def want(number: int, size: int, steps: int, room: Room) -> None:
        async with room.hold(size):
            order.append(number)
            held.append(min(size, 10))
            assert sum(held) <= 10
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                held.remove(min(size, 10))

    async def story() -> None:
        room = Room(10)
        tasks = [asyncio.create_task(want(n, size, steps, room)) for n, (size, steps, _) in enumerate(wishes)]
        await asyncio.sleep(0)
        for task, (_, _, is_cancelled) in zip(tasks, wishes, strict=True):
            if is_cancelled:
                task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError | None) for end in ended)
        async with asyncio.timeout(5), room.hold(10):
            assert not held

    asyncio.run(story())

    assert order == sorted(order)
    assert {n for n, (_, _, is_cancelled) in enumerate(wishes) if not is_cancelled} <= set(order)


async def test_whoever_is_cancelled_in_the_line_does_not_keep_the_next_waiting() -> None:
    room = Room(10)
    async with room.hold(8):
        large = asyncio.create_task(room.hold(10).__aenter__())
        small = asyncio.create_task(room.hold(2).__aenter__())
        await asyncio.sleep(0)
        assert not small.done()

        large.cancel()

        await small
