"""From a question to an answer that the caller has a right to at the moment it leaves."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from alacarte.prompting.predict import Answer
from registry.models.collections import Composition, Weighting
from registry.objects.errors import ObjectDamaged, ObjectMissing
from registry.rights import still_usable, usable
from registry.usable_set import UsableSet
from service.engine.engine import Compose
from service.engine.errors import DeadlinePassed
from service.errors import NothingUsable, SetUnsettled
from service.looking import look
from service.questions import Asking
from service.visit import Visit

TRIES = 3


@dataclass(frozen=True)
class Answered:
    """The answers in the order of the pictures, and the set that they rest on."""

    answers: tuple[Answer, ...]
    used: UsableSet
    composition: Composition
    weighting: Weighting


Tell = Callable[[Answered], bytes]  # the document of the answers; in a thread


@dataclass(frozen=True)
class Told:
    """A document that is finished, and whether its caller had a right to all of it after that."""

    document: bytes
    is_still_so: bool


async def answer(visit: Visit, asking: Asking, tell: Tell) -> bytes:
    """The document of the answers by what the caller may use, read from SQL at the beginning and again at the end.

    What has gone in between is not in it: it is computed again without. It is finished before the last look, after
    which there is nothing to do but to send it.
    """
    service = visit.service
    deadline = time.monotonic() + service.settings.deadline_s
    try:
        async with asyncio.timeout(service.settings.deadline_s) as limit:
            with service.flights.flight():
                service.keeper.require_enrolled()
                return await _settled(visit, asking, tell, deadline)
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassed from None
        raise


async def _settled(visit: Visit, asking: Asking, tell: Tell, deadline: float) -> bytes:
    found = await _look_up(visit, asking, "first")
    for _ in range(TRIES):
        _require_some(found)
        try:
            told = await _tell(visit, asking, found, tell, deadline)
        except (ObjectMissing, ObjectDamaged):  # it may have been erased on the way
            now = await _look_up(visit, asking, "again")
            if set(found.prompts) <= set(now.prompts):
                raise
        else:
            if told.is_still_so:
                return told.document
            now = await _look_up(visit, asking, "again")
        found = now
    raise SetUnsettled


async def look_up(visit: Visit, task: str) -> UsableSet:
    """What the caller may use of a task now."""
    service = visit.service
    return await look(service.door, lambda: usable(service.registry.database, visit.proof, task=task))


async def _tell(visit: Visit, asking: Asking, found: UsableSet, tell: Tell, deadline: float) -> Told:
    composition = asking.wish.composition or found.task.composition
    weighting = asking.wish.weighting or found.task.weighting
    assert found.caller.user_id is not None

    def finish(compose: Compose) -> Awaitable[Told]:
        def work() -> Told:
            document = tell(Answered(tuple(compose()), found, composition, weighting))
            return Told(document, _is_still_so(visit, asking, found))

        return look(visit.service.door, work)

    return await visit.service.engine.answer(
        found.task,
        asking.pictures,
        found.prompts,
        composition,
        weighting,
        user=found.caller.user_id,
        deadline=deadline,
        finish=finish,
    )


async def _look_up(visit: Visit, asking: Asking, which: Literal["first", "again"]) -> UsableSet:
    service, wish = visit.service, asking.wish

    def read() -> UsableSet:
        return usable(
            service.registry.database, visit.proof, task=wish.task, release=wish.release, sources=wish.sources
        )

    with service.metrics.rights_seconds.labels(which).time():
        return await look(service.door, read)


def _is_still_so(visit: Visit, asking: Asking, found: UsableSet) -> bool:
    """The last look: whether the caller may use all that was found, at this moment; blocks."""
    service, wish = visit.service, asking.wish
    with service.metrics.rights_seconds.labels("again").time():
        return still_usable(service.registry.database, visit.proof, found, release=wish.release, sources=wish.sources)


def _require_some(found: UsableSet) -> None:
    if found.prompts:
        return
    if found.sources:
        raise NothingUsable("no source that you may use has learnt anything yet: wait until one is trained")
    who = "give yourself" if found.caller.is_admin else "ask its owner or an admin for"
    raise NothingUsable(f"there is no source that you may use: {who} a grant")
