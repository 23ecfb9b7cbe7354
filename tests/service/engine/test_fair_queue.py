"""Admission: users take turns, queue and budget are bounded, and whoever floods the queue is displaced first."""

import asyncio
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.errors import Overloaded
from service.engine.fair_queue import ByteBudget, FairQueue, Ticket
from tests.service.engine.fixtures import ANN, BEN, CAT

pytestmark = pytest.mark.anyio

USERS = (ANN, BEN, CAT)


def new_queue(max_active: int, max_waiting: int = 100) -> FairQueue:
    return FairQueue(max_active, max_waiting, lambda: 2.0)


async def test_one_users_flood_leaves_capacity_for_another() -> None:
    queue = new_queue(max_active=8)
    flood = queue.enqueue(ANN, 50)

    (single,) = queue.enqueue(BEN, 1)

    assert sum(ticket.is_active for ticket in flood) == 6
    assert single.is_active


async def test_users_take_turns() -> None:
    queue = new_queue(max_active=1)
    active = queue.enqueue(CAT, 1)
    assert active[0].granted.done()
    tickets = [*queue.enqueue(ANN, 3), *queue.enqueue(BEN, 2)]
    order: list[UUID] = []

    for _ in range(5):
        queue.release(active[0])
        active = [ticket for ticket in tickets if ticket.is_active]
        order.append(active[0].user)

    assert order == [ANN, BEN, ANN, BEN, ANN]


async def test_a_full_queue_refuses_whole_requests_with_the_seconds_after_which_to_retry() -> None:
    queue = new_queue(max_active=2, max_waiting=3)
    queue.enqueue(ANN, 4)

    with pytest.raises(Overloaded):
        queue.enqueue(ANN, 2)
    assert queue.waiting + queue.active == 4
    queue.enqueue(ANN, 1)
    with pytest.raises(Overloaded) as caught:
        queue.enqueue(ANN, 1)

    assert caught.value.status == 503
    assert caught.value.retry_after == 10  # five pictures of two seconds each


async def test_in_a_full_queue_a_user_with_fewer_tickets_displaces_the_one_with_most() -> None:
    queue = new_queue(max_active=1, max_waiting=4)
    flood = queue.enqueue(ANN, 5)

    (single,) = queue.enqueue(BEN, 1)

    with pytest.raises(Overloaded):
        flood[-1].granted.result()
    assert not any(ticket.granted.done() for ticket in flood[1:-1])
    assert not single.granted.done()
    queue.release(flood[0])
    assert single.is_active or flood[1].is_active


async def test_users_with_equally_many_tickets_do_not_displace_each_other() -> None:
    queue = new_queue(max_active=1, max_waiting=4)
    queue.enqueue(CAT, 1)
    queue.enqueue(ANN, 2)
    queue.enqueue(BEN, 2)

    with pytest.raises(Overloaded):
        queue.enqueue(CAT, 2)


async def test_a_ticket_released_while_it_waits_is_skipped() -> None:
    queue = new_queue(max_active=1)
    (first, second, third) = (queue.enqueue(user, 1)[0] for user in USERS)

    queue.release(second)
    queue.release(first)

    assert third.is_active
    assert (queue.active, queue.waiting) == (1, 0)


@given(st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, 4), st.booleans()), max_size=40))
def test_the_queue_stays_within_its_bounds_and_every_ticket_is_settled(steps: list[tuple[UUID, int, bool]]) -> None:
    async def run() -> None:
        queue = new_queue(max_active=4, max_waiting=6)
        tickets: list[Ticket] = []
        for user, number, is_enqueue in steps:
            if is_enqueue:
                try:
                    tickets += queue.enqueue(user, number)
                except Overloaded:
                    assert queue.active + queue.waiting + number > 10
            elif tickets:
                queue.release(tickets.pop(number % len(tickets)))
            assert queue.active <= 4
            assert queue.waiting <= 10 - queue.active
        while active := [ticket for ticket in tickets if ticket.is_active]:
            queue.release(active[0])
        assert (queue.active, queue.waiting) == (0, 0)
        assert all(ticket.granted.done() for ticket in tickets)
        for ticket in tickets:
            queue.release(ticket)

    asyncio.run(run())


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 2), st.booleans()), max_size=20))
def test_the_byte_budget_is_never_exceeded_and_all_of_it_comes_back(requests: list[tuple[int, int, bool]]) -> None:
    reserved: list[int] = []
    order: list[int] = []

    async def reserve(number: int, size: int, steps: int, budget: ByteBudget) -> None:
        async with budget.reserve(size):
            order.append(number)
            reserved.append(min(size, 10))
            assert sum(reserved) <= 10
            try:
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                reserved.remove(min(size, 10))

    async def run() -> None:
        budget = ByteBudget(10)
        tasks = [asyncio.create_task(reserve(n, size, steps, budget)) for n, (size, steps, _) in enumerate(requests)]
        await asyncio.sleep(0)
        for task, (_, _, is_cancelled) in zip(tasks, requests, strict=True):
            if is_cancelled:
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError | None) for result in results)
        async with asyncio.timeout(5), budget.reserve(10):
            assert not reserved

    asyncio.run(run())

    assert order == sorted(order)
    assert {n for n, (_, _, is_cancelled) in enumerate(requests) if not is_cancelled} <= set(order)


async def test_a_cancelled_reservation_does_not_block_the_next() -> None:
    budget = ByteBudget(10)
    async with budget.reserve(8):
        large = asyncio.create_task(budget.reserve(10).__aenter__())
        small = asyncio.create_task(budget.reserve(2).__aenter__())
        await asyncio.sleep(0)
        assert not small.done()

        large.cancel()

        await small
