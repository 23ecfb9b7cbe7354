"""`alacarte serve` for races: it tells when the scores of an answer were there, and breaks a promise if it is told to.

Nothing of the product knows of this: the faults are put into its modules from here, before the service starts.
Called as `python -m tests.fire.replica [FAULT]`, with the settings of the service in its environment.
"""

import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import service.answering
import service.app
import service.routes.predict
from alacarte.cli.serve import serve
from alacarte.prompting.predict import Answer
from registry.rights import usable
from registry.usable_set import UsableSet
from service.answering import Answered, Tell
from service.engine.engine import Compose, Engine
from service.questions import Asking
from service.settings import ServiceSettings
from service.visit import Visit

COMPUTED_AT = "x-computed-at"  # by time.monotonic(), which is one clock for all processes of a machine
KEPT_SECONDS = 1.0

Look = Literal["first", "again"]

_kept: dict[tuple[str, str], tuple[float, UsableSet]] = {}
_look_up = service.answering._look_up
_is_still_so = service.answering._is_still_so
_answer = service.answering.answer
_create_app = service.app.create_app


@dataclass
class Note:
    """What is to be told of a request."""

    computed: float | None = None
    found: UsableSet | None = None  # the rights as they were read first


_note: ContextVar[Note] = ContextVar("note")


class Telling:
    """The outermost layer: puts into the answer when its scores were there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        note = Note()
        _note.set(note)

        async def send_told(message: Message) -> None:
            if message["type"] == "http.response.start" and note.computed is not None:
                MutableHeaders(scope=message)[COMPUTED_AT] = repr(note.computed)
            await send(message)

        await self._app(scope, receive, send_told)


class ToldEngine(Engine):
    """Computes as ever, and notes when it was done."""

    async def answer(self, *given: Any, **named: Any) -> Any:  # Any: whatever the engine takes and gives
        """The engine's answer."""
        finish, note = named.pop("finish"), _note.get()

        def finish_noted(compose: Compose) -> Any:
            def compose_noted() -> list[Answer]:
                answers = compose()
                note.computed = time.monotonic()
                return answers

            return finish(compose_noted)

        return await super().answer(*given, **named, finish=finish_noted)


def create_telling_app(settings: ServiceSettings) -> FastAPI:
    """The service, told of."""
    app = _create_app(settings)
    app.add_middleware(Telling)
    return app


async def look_up_once(visit: Visit, asking: Asking, which: Look) -> UsableSet:
    """Rights as they were when the request came: nothing is looked at again before the answer leaves."""
    note = _note.get()
    note.found = note.found or await _look_up(visit, asking, which)
    return note.found


async def look_up_now_and_then(visit: Visit, asking: Asking, which: Look) -> UsableSet:
    """Rights from a cache that is a moment old at most."""
    key = _key_of(visit, asking)
    if key not in _kept or time.monotonic() > _kept[key][0] + KEPT_SECONDS:
        _kept[key] = (time.monotonic(), await _look_up(visit, asking, which))
    return _kept[key][1]


def _key_of(visit: Visit, asking: Asking) -> tuple[str, str]:
    return str(visit.user_id), str(asking.wish.sources)


def find_all_still_so(_visit: Visit, _asking: Asking, _found: UsableSet) -> bool:
    """The last look, with closed eyes."""
    return True


def find_still_so_lately(visit: Visit, asking: Asking, found: UsableSet) -> bool:
    """The last look, into the same cache as the first."""
    read_at, kept = _kept[_key_of(visit, asking)]
    if time.monotonic() > read_at + KEPT_SECONDS:
        return _is_still_so(visit, asking, found)
    return set(found.prompts) <= set(kept.prompts)


async def answer_with_fewer_names(visit: Visit, asking: Asking, tell: Tell) -> bytes:
    """An answer that leaves out the names of what has gone, and rests on it all the same."""
    wish = asking.wish

    def tell_less(answered: Answered) -> bytes:
        now = usable(visit.service.registry.database, visit.proof, task=wish.task, sources=wish.sources).prompts
        left = tuple(prompt for prompt in answered.used.prompts if prompt in set(now))
        return tell(replace(answered, used=replace(answered.used, prompts=left)))

    return await _answer(visit, asking, tell_less)


def break_promise(fault: str) -> None:
    """From now on the service has this fault."""
    looks: dict[str, tuple[Any, Any]] = {
        "unchecked": (look_up_once, find_all_still_so),
        "unnamed": (look_up_once, find_all_still_so),
        "cached": (look_up_now_and_then, find_still_so_lately),
    }
    for name, look in zip(("_look_up", "_is_still_so"), looks[fault], strict=True):
        put(service.answering, name, look)
    if fault == "unnamed":
        put(service.routes.predict, "answer", answer_with_fewer_names)


def put(module: ModuleType, name: str, value: object) -> None:
    """The module finds this under that name, which it has already."""
    assert hasattr(module, name), f"{module.__name__} has no {name} any more"
    setattr(module, name, value)


if __name__ == "__main__":
    put(service.app, "Engine", ToldEngine)
    put(service.app, "create_app", create_telling_app)
    for fault in sys.argv[1:]:
        break_promise(fault)
    serve()
