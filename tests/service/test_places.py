"""Places: no more are taken than there are, even by all who come at once, and nobody has more than half."""

import asyncio
from threading import Event
from uuid import UUID

import pytest

from service.door import Door
from service.errors import Busy
from service.places import Places

USERS = [UUID(int=number) for number in range(6)]


def test_of_those_who_come_at_once_as_many_are_let_in_as_there_are_places() -> None:
    async def main() -> list[object]:
        places, door, may_end = Places(2), Door(2), Event()

        async def upload(user: UUID) -> str:
            with places.taken_by(user, "full"):
                await door.through(may_end.wait)
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
    places = Places(count)
    held = [places.taken_by(USERS[0], "full") for _ in range(most)]
    for one in held:
        one.__enter__()

    with pytest.raises(Busy, match="full"), places.taken_by(USERS[0], "full"):
        pass
    if count > most:
        with places.taken_by(USERS[1], "full"):
            pass
    for one in held:
        one.__exit__(None, None, None)
    with places.taken_by(USERS[0], "full"):
        pass


def test_a_place_is_free_again_when_its_taker_fails() -> None:
    places = Places(1)

    with pytest.raises(KeyError), places.taken_by(USERS[0], "full"):
        raise KeyError

    with places.taken_by(USERS[1], "full"):
        pass
