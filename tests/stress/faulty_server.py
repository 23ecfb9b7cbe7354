"""`alacarte serve` with instrumentation for races, and optionally with a fault that tests must find.

Each response says in a header when its scores were computed. The product has no hook for this: this module patches it
before the service starts. Run it as `python -m tests.stress.faulty_server [FAULT]`; settings come from the environment.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import service.app
import service.prediction.predict
from alacarte.cli.commands.serve import serve
from alacarte.prompting.predict import ImagePrediction
from registry.access.usable_prompts import UsablePrompt, UsablePromptSet, read_usable_prompts
from service.engine.compose import compose
from service.engine.engine import Engine
from service.engine.job import PictureLogits
from service.http.request_context import RequestContext
from service.prediction.request import PredictionQuery
from service.prediction.response import PredictionResult
from service.prediction.rights_recheck import Phase, read_rights, recheck_rights
from service.settings import ServiceSettings

COMPUTED_AT = "x-computed-at"  # by time.monotonic(), which is one clock for all processes of a machine
CACHE_SECONDS = 1.0
LEAKED_BYTES = 128 * 1024  # per request; about one decoded picture

_cached_rights: dict[tuple[str, str], tuple[float, UsablePromptSet]] = {}
_leaked: list[bytearray] = []
_create_app = service.app.create_app


@dataclass
class RequestRecord:
    """What is recorded of a request."""

    computed: float | None = None
    allowed: UsablePromptSet | None = None  # the rights as they were read first


_record: ContextVar[RequestRecord] = ContextVar("record")


class ComputedAtMiddleware:
    """Outermost middleware: adds the time at which the scores were computed to the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = RequestRecord()
        _record.set(record)

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start" and record.computed is not None:
                MutableHeaders(scope=message)[COMPUTED_AT] = repr(record.computed)
            await send(message)

        await self._app(scope, receive, send_with_header)


class RecordedLogits(list[PictureLogits]):
    """Logits with the record of their request; the thread that composes them has no access to the request's context."""

    def __init__(self, logits: Iterable[PictureLogits], record: RequestRecord) -> None:
        super().__init__(logits)
        self.record = record


class RecordingEngine(Engine):
    """An engine whose logits carry the record of their request."""

    async def run(self, *given: Any, **named: Any) -> list[PictureLogits]:  # Any: whatever the engine takes
        return RecordedLogits(await super().run(*given, **named), _record.get())


def compose_recorded(prompts: Sequence[UsablePrompt], logits: RecordedLogits, *how: Any) -> list[ImagePrediction]:
    answers = compose(prompts, logits, *how)
    logits.record.computed = time.monotonic()
    return answers


class LeakMiddleware:
    """Leaks memory with every request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _leaked.append(bytearray(b"x" * LEAKED_BYTES))
        await self._app(scope, receive, send)


def create_instrumented_app(settings: ServiceSettings) -> FastAPI:
    app = _create_app(settings)
    app.add_middleware(ComputedAtMiddleware)
    if "leaking" in sys.argv:
        app.add_middleware(LeakMiddleware)
    return app


async def read_rights_once(context: RequestContext, query: PredictionQuery, phase: Phase) -> UsablePromptSet:
    """Read the rights at the first attempt of a request alone."""
    record = _record.get()
    record.allowed = record.allowed or await read_rights(context, query, phase)
    return record.allowed


async def read_cached_rights(context: RequestContext, query: PredictionQuery, phase: Phase) -> UsablePromptSet:
    """Read the rights through a cache with a short lifetime."""
    key = _key_of(context, query)
    if key not in _cached_rights or time.monotonic() > _cached_rights[key][0] + CACHE_SECONDS:
        _cached_rights[key] = (time.monotonic(), await read_rights(context, query, phase))
    return _cached_rights[key][1]


def _key_of(context: RequestContext, query: PredictionQuery) -> tuple[str, str]:
    return str(context.user_id), str(query.options.sources)


def skip_recheck(_context: RequestContext, _query: PredictionQuery, _allowed: UsablePromptSet) -> bool:
    return True


def recheck_from_cache(context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet) -> bool:
    read_at, cached = _cached_rights[_key_of(context, query)]
    if time.monotonic() > read_at + CACHE_SECONDS:
        return recheck_rights(context, query, allowed)
    return set(allowed.prompts) <= set(cached.prompts)


def respond_without_removed_names(
    context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet, logits: RecordedLogits
) -> bytes:
    """Respond with scores of all prompts, but omit the names of the sources that are no longer usable."""
    options = query.options
    composition, weighting = service.prediction.predict._composition(query, allowed)
    answers = compose_recorded(allowed.prompts, logits, composition, weighting)
    now = read_usable_prompts(
        context.state.registry.database, context.credential, task=options.task, sources=options.sources
    ).prompts
    left = tuple(prompt for prompt in allowed.prompts if prompt in set(now))
    result = PredictionResult(tuple(answers), replace(allowed, prompts=left), composition, weighting)
    return service.prediction.predict._serialize(result, query)


FAULTS: dict[str, dict[str, object]] = {  # replacements in service.prediction.predict
    "unchecked": {"read_rights": read_rights_once, "recheck_rights": skip_recheck},
    "unnamed": {
        "read_rights": read_rights_once,
        "recheck_rights": skip_recheck,
        "_respond": respond_without_removed_names,
    },
    "cached": {"read_rights": read_cached_rights, "recheck_rights": recheck_from_cache},
    "leaking": {},
}


def patch(module: ModuleType, name: str, value: object) -> None:
    assert hasattr(module, name), f"{module.__name__} has no {name} any more"
    setattr(module, name, value)


if __name__ == "__main__":
    patch(service.app, "Engine", RecordingEngine)
    patch(service.prediction.predict, "compose", compose_recorded)
    patch(service.app, "create_app", create_instrumented_app)
    for fault in sys.argv[1:]:
        for name, replacement in FAULTS[fault].items():
            patch(service.prediction.predict, name, replacement)
    serve()
