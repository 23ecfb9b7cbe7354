"""`alacarte serve` for races: it tells when the scores of an answer were there, and breaks a promise if it is told to.

Nothing of the product knows of this: the faults are put into its modules from here, before the service starts.
Called as `python -m tests.stress.race.replica [FAULT]`, with the settings of the service in its environment.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import service.app
import service.prediction.predict
from alacarte.cli.commands.serve import serve
from alacarte.prompting.predict import Answer
from registry.access.rights import usable
from registry.access.usable_set import UsablePrompt, UsableSet
from service.engine.compose import compose
from service.engine.engine import Engine
from service.engine.job import Said
from service.http.request_session import Visit
from service.prediction.predict import CheckedResponse
from service.prediction.request import PredictionQuery
from service.prediction.response import PredictionResult
from service.settings import ServiceSettings

COMPUTED_AT = "x-computed-at"  # by time.monotonic(), which is one clock for all processes of a machine
KEPT_SECONDS = 1.0

Look = Literal["first", "again"]

_kept: dict[tuple[str, str], tuple[float, UsableSet]] = {}
_read_query_rights = service.prediction.predict._read_query_rights
_is_still_authorized = service.prediction.predict._is_still_authorized
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


class NotedLogits(list[Said]):
    """The logits of a request, with its note: the thread that composes them does not see the request's context."""

    def __init__(self, logits: Iterable[Said], note: Note) -> None:
        super().__init__(logits)
        self.note = note


class NotingEngine(Engine):
    """Computes as ever; its logits carry the note of their request."""

    async def run(self, *given: Any, **named: Any) -> list[Said]:  # Any: whatever the engine takes
        """The engine's logits."""
        return NotedLogits(await super().run(*given, **named), _note.get())


def compose_noted(prompts: Sequence[UsablePrompt], logits: NotedLogits, *how: Any) -> list[Answer]:
    """The answers; notes the moment when they are there."""
    answers = compose(prompts, logits, *how)
    logits.note.computed = time.monotonic()
    return answers


def create_telling_app(settings: ServiceSettings) -> FastAPI:
    """The service, told of."""
    app = _create_app(settings)
    app.add_middleware(Telling)
    return app


async def look_up_once(visit: Visit, query: PredictionQuery, which: Look) -> UsableSet:
    """Rights as they were when the request came: nothing is looked at again before the answer leaves."""
    note = _note.get()
    note.found = note.found or await _read_query_rights(visit, query, which)
    return note.found


async def look_up_now_and_then(visit: Visit, query: PredictionQuery, which: Look) -> UsableSet:
    """Rights from a cache that is a moment old at most."""
    key = _key_of(visit, query)
    if key not in _kept or time.monotonic() > _kept[key][0] + KEPT_SECONDS:
        _kept[key] = (time.monotonic(), await _read_query_rights(visit, query, which))
    return _kept[key][1]


def _key_of(visit: Visit, query: PredictionQuery) -> tuple[str, str]:
    return str(visit.user_id), str(query.options.sources)


def find_all_still_so(_visit: Visit, _query: PredictionQuery, _found: UsableSet) -> bool:
    """The last look, with closed eyes."""
    return True


def find_still_so_lately(visit: Visit, query: PredictionQuery, found: UsableSet) -> bool:
    """The last look, into the same cache as the first."""
    read_at, kept = _kept[_key_of(visit, query)]
    if time.monotonic() > read_at + KEPT_SECONDS:
        return _is_still_authorized(visit, query, found)
    return set(found.prompts) <= set(kept.prompts)


def respond_with_fewer_names(
    visit: Visit, query: PredictionQuery, allowed: UsableSet, logits: NotedLogits
) -> CheckedResponse:
    """A response that leaves out the names of what has gone, and rests on it all the same."""
    options = query.options
    composition, weighting = service.prediction.predict._composition(query, allowed)
    answers = compose_noted(allowed.prompts, logits, composition, weighting)
    now = usable(visit.service.registry.database, visit.proof, task=options.task, sources=options.sources).prompts
    left = tuple(prompt for prompt in allowed.prompts if prompt in set(now))
    result = PredictionResult(tuple(answers), replace(allowed, prompts=left), composition, weighting)
    return CheckedResponse(service.prediction.predict._serialize(result, query), is_authorized=True)


def break_promise(fault: str) -> None:
    """From now on the service has this fault."""
    looks: dict[str, tuple[Any, Any]] = {
        "unchecked": (look_up_once, find_all_still_so),
        "unnamed": (look_up_once, find_all_still_so),
        "cached": (look_up_now_and_then, find_still_so_lately),
    }
    for name, look in zip(("_read_query_rights", "_is_still_authorized"), looks[fault], strict=True):
        put(service.prediction.predict, name, look)
    if fault == "unnamed":
        put(service.prediction.predict, "_respond", respond_with_fewer_names)


def put(module: ModuleType, name: str, value: object) -> None:
    """The module finds this under that name, which it has already."""
    assert hasattr(module, name), f"{module.__name__} has no {name} any more"
    setattr(module, name, value)


if __name__ == "__main__":
    put(service.app, "Engine", NotingEngine)
    put(service.prediction.predict, "compose", compose_noted)
    put(service.app, "create_app", create_telling_app)
    for fault in sys.argv[1:]:
        break_promise(fault)
    serve()
