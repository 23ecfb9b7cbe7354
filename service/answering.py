"""From a question to an answer that the caller has a right to at the moment it leaves."""

import time
from dataclasses import dataclass

from alacarte.prompting.predict import Answer
from registry.errors import DomainError
from registry.models.collections import Composition, Weighting
from registry.rights import usable
from registry.usable_set import UsableSet
from service.errors import NothingUsable, SetUnsettled
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


async def answer(visit: Visit, asking: Asking) -> Answered:
    """The answers by what the caller may use, read from SQL at the beginning and again at the end.

    What has gone in between is not in the answer: it is computed again without.
    """
    service = visit.service
    deadline = time.monotonic() + service.settings.deadline_s
    with service.flights.flight():
        service.keeper.require_enrolled()
        found = await _look_up(visit, asking)
        for _ in range(TRIES):
            _require_some(found)
            composition = asking.wish.composition or found.task.composition
            weighting = asking.wish.weighting or found.task.weighting
            failure: DomainError | None = None
            answers: list[Answer] = []
            try:
                assert found.caller.user_id is not None
                answers = await service.engine.answer(
                    found.task,
                    asking.pictures,
                    found.prompts,
                    composition,
                    weighting,
                    user=found.caller.user_id,
                    deadline=deadline,
                )
            except DomainError as error:  # such as an object that was erased on the way
                failure = error
            now = await _look_up(visit, asking)
            if set(found.prompts) <= set(now.prompts):
                if failure is not None:
                    raise failure
                return Answered(tuple(answers), found, composition, weighting)
            found = now
    raise SetUnsettled


async def look_up(visit: Visit, task: str) -> UsableSet:
    """What the caller may use of a task now."""
    return await visit.service.door.through(lambda: usable(visit.service.registry.database, visit.token, task=task))


async def _look_up(visit: Visit, asking: Asking) -> UsableSet:
    wish = asking.wish
    return await visit.service.door.through(
        lambda: usable(
            visit.service.registry.database,
            visit.token,
            task=wish.task,
            release=wish.release,
            sources=wish.sources,
        )
    )


def _require_some(found: UsableSet) -> None:
    if found.prompts:
        return
    if found.sources:
        raise NothingUsable("no source that you may use has learnt anything yet: wait until one is trained")
    raise NothingUsable("there is no source that you may use: ask its owner or an admin for a grant")
