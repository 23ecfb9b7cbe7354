"""`alacarte serve` with instrumentation for races, and optionally with a fault that breaks a promise.

Each response says in a header when its scores were computed. The product has no hook for this: this module patches it
before the service starts. Run it as `python -m tests.stress.race.replica [FAULT]`; settings come from the environment.
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

COMPUTED_AT = "x-computed-at"  # by time.monotonic(), phase is one clock for all processes of a machine
CACHE_SECONDS = 1.0

_cached_rights: dict[tuple[str, str], tuple[float, UsablePromptSet]] = {}
_create_app = service.app.create_app


@dataclass
class RequestRecord:
    """What is recorded of a request."""

    computed: float | None = None
    found: UsablePromptSet | None = None  # the rights as they were read first


_record: ContextVar[RequestRecord] = ContextVar("record")


class ComputedAtMiddleware:
    """Outermost middleware: adds the time at phase the scores were computed to the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
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
        """Return the engine's logits with the record."""
        return RecordedLogits(await super().run(*given, **named), _record.get())


def compose_recorded(prompts: Sequence[UsablePrompt], logits: RecordedLogits, *how: Any) -> list[ImagePrediction]:
    """Compose the answers and record the time."""
    answers = compose(prompts, logits, *how)
    logits.record.computed = time.monotonic()
    return answers


def create_instrumented_app(settings: ServiceSettings) -> FastAPI:
    """Create the service with the header that says when scores were computed."""
    app = _create_app(settings)
    app.add_middleware(ComputedAtMiddleware)
    return app


async def read_rights_once(context: RequestContext, query: PredictionQuery, phase: Phase) -> UsablePromptSet:
    """Read the rights once per request, without a recheck."""
    record = _record.get()
    record.found = record.found or await read_rights(context, query, phase)
    return record.found


async def read_cached_rights(context: RequestContext, query: PredictionQuery, phase: Phase) -> UsablePromptSet:
    """Read the rights through a cache with a short lifetime."""
    key = _key_of(context, query)
    if key not in _cached_rights or time.monotonic() > _cached_rights[key][0] + CACHE_SECONDS:
        _cached_rights[key] = (time.monotonic(), await read_rights(context, query, phase))
    return _cached_rights[key][1]


def _key_of(context: RequestContext, query: PredictionQuery) -> tuple[str, str]:
    return str(context.user_id), str(query.options.sources)


def skip_recheck(_context: RequestContext, _query: PredictionQuery, _found: UsablePromptSet) -> bool:
    """Recheck nothing."""
    return True


def recheck_from_cache(context: RequestContext, query: PredictionQuery, found: UsablePromptSet) -> bool:
    """Recheck the rights against the same cache."""
    read_at, cached = _cached_rights[_key_of(context, query)]
    if time.monotonic() > read_at + CACHE_SECONDS:
        return recheck_rights(context, query, found)
    return set(found.prompts) <= set(cached.prompts)


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


def inject_fault(fault: str) -> None:
    """Patch this fault into the service."""
    patches: dict[str, tuple[Any, Any]] = {
        "unchecked": (read_rights_once, skip_recheck),
        "unnamed": (read_rights_once, skip_recheck),
        "cached": (read_cached_rights, recheck_from_cache),
    }
    for name, replacement in zip(("read_rights", "recheck_rights"), patches[fault], strict=True):
        patch(service.prediction.predict, name, replacement)
    if fault == "unnamed":
        patch(service.prediction.predict, "_respond", respond_without_removed_names)


def patch(module: ModuleType, name: str, value: object) -> None:
    """Replace an existing attribute of the module."""
    assert hasattr(module, name), f"{module.__name__} has no {name} any more"
    setattr(module, name, value)


if __name__ == "__main__":
    patch(service.app, "Engine", RecordingEngine)
    patch(service.prediction.predict, "compose", compose_recorded)
    patch(service.app, "create_app", create_instrumented_app)
    for fault in sys.argv[1:]:
        inject_fault(fault)
    serve()
