"""Users take turns; the line is bounded, and whoever floods it is the one who loses a place in it."""

import asyncio
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.errors import Overloaded
from service.engine.fair_queue import FairQueue, Ticket
from tests.service.engine.fixtures import ANN, BEN, CAT

pytestmark = pytest.mark.anyio

USERS = (ANN, BEN, CAT)


def turns_of(places: int, waiting: int = 100) -> FairQueue:
    return FairQueue(places, waiting, lambda: 2.0)


def begun(turns: list[Ticket]) -> int:
    return sum(turn.is_going for turn in turns)


async def test_a_lone_turn_is_granted_at_once() -> None:
    (turn,) = turns_of(places=1).join(ANN, 1)

    assert turn.granted.done()


async def test_one_users_flood_leaves_a_place_for_another() -> None:
    turns = turns_of(places=8)
    flood = turns.join(ANN, 50)

    (single,) = turns.join(BEN, 1)

    assert begun(flood) == 6
    assert single.is_going


async def test_users_take_turns() -> None:
    turns = turns_of(places=1)
    running = turns.join(CAT, 1)
    lines = {ANN: turns.join(ANN, 3), BEN: turns.join(BEN, 2)}
    order: list[UUID] = []

    for _ in range(5):
        turns.leave(running[0])
        running = [turn for line in lines.values() for turn in line if turn.is_going]
        order.append(running[0].user)

    assert order == [ANN, BEN, ANN, BEN, ANN]


async def test_a_full_line_refuses_with_the_seconds_after_which_to_ask_again() -> None:
    turns = turns_of(places=2, waiting=3)
    turns.join(ANN, 5)

    with pytest.raises(Overloaded) as caught:
        turns.join(ANN, 1)

    assert caught.value.status == 503
    assert caught.value.retry_after == 10  # five pictures of two seconds each


async def test_a_request_is_admitted_as_a_whole_or_not_at_all() -> None:
    turns = turns_of(places=2, waiting=3)
    turns.join(ANN, 4)

    with pytest.raises(Overloaded):
        turns.join(ANN, 2)

    assert turns.waiting + turns.going == 4


async def test_a_full_line_of_one_user_makes_way_for_another_who_waits_with_less() -> None:
    turns = turns_of(places=1, waiting=4)
    flood = turns.join(ANN, 5)

    (single,) = turns.join(BEN, 1)

    with pytest.raises(Overloaded):
        flood[-1].granted.result()
    assert not any(turn.granted.done() for turn in flood[1:-1])
    assert not single.granted.done()
    turns.leave(flood[0])
    assert single.is_going or flood[1].is_going


async def test_equal_crowds_do_not_displace_each_other() -> None:
    turns = turns_of(places=1, waiting=4)
    turns.join(CAT, 1)
    turns.join(ANN, 2)
    turns.join(BEN, 2)

    with pytest.raises(Overloaded):
        turns.join(CAT, 2)


async def test_whoever_leaves_the_line_gives_way_to_the_next() -> None:
    turns = turns_of(places=1)
    (first, second, third) = (turns.join(user, 1)[0] for user in USERS)

    turns.leave(second)
    turns.leave(first)

    assert third.is_going
    assert (turns.going, turns.waiting) == (1, 0)


@given(st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, 4), st.booleans()), max_size=40))
def test_places_and_lines_stay_within_their_bounds_and_nobody_is_forgotten(
    steps: list[tuple[UUID, int, bool]],
) -> None:
    async def story() -> None:
        turns = turns_of(places=4, waiting=6)
        joined: list[Ticket] = []
        for user, number, is_joining in steps:
            if is_joining:
                try:
                    joined += turns.join(user, number)
                except Overloaded:
                    assert turns.going + turns.waiting + number > 10
            elif joined:
                turns.leave(joined.pop(number % len(joined)))
            assert turns.going <= 4
            assert turns.waiting <= 10 - turns.going
        while going := [turn for turn in joined if turn.is_going]:
            turns.leave(going[0])
        assert (turns.going, turns.waiting) == (0, 0)
        assert all(turn.granted.done() for turn in joined)
        for turn in joined:
            turns.leave(turn)

    asyncio.run(story())
